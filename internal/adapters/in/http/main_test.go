package http_test

import (
	"testing"

	"billing/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

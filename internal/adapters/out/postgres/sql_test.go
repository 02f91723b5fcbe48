package postgres_test

import (
	"io/fs"
	"strings"
	"testing"

	"billing/internal/adapters/out/postgres"
	"billing/internal/testkit"
)

func TestEveryStatementIsValidOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	pool := testkit.NewDB(t).Pool(t)
	names, err := fs.Glob(postgres.SQLFiles, "sql/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d statements: %v", len(names), err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, name := range names {
		text, err := fs.ReadFile(postgres.SQLFiles, name)
		if err != nil {
			t.Fatal(err)
		}
		prepared, err := conn.Conn().Prepare(t.Context(), name, string(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, oid := range prepared.ParamOIDs {
			if oid == 705 || !strings.Contains(string(text), "$") {
				t.Errorf("%s: the type of $%d is not known", name, i+1)
			}
		}
	}
}

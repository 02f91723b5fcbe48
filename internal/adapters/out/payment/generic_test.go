package payment

import "testing"

func TestGenericKeepsTheContractOfProviders(t *testing.T) {
	t.Parallel()
	runSuite(t, func(t *testing.T, to target) provider {
		t.Helper()
		return newGeneric(t, to)
	})
}

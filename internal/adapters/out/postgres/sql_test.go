package postgres_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"billing/internal/adapters/out/postgres"
	"billing/internal/testkit"
)

// statements returns every file below sql/, by path.
func statements(t *testing.T, files fs.FS) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := fs.WalkDir(files, "sql", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func TestEveryStatementIsValidOnTheMigratedSchema(t *testing.T) {
	t.Parallel()
	conn, err := testkit.NewDB(t).Pool(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	left := statements(t, os.DirFS("."))
	for _, open := range []string{"sql/effects/open.sql", "sql/effects/open_results.sql"} {
		if _, err := conn.Exec(t.Context(), left[open]); err != nil {
			t.Fatal(err)
		}
	}
	for _, files := range postgres.SQLFiles {
		for path, text := range statements(t, files) {
			delete(left, path)
			prepared, err := conn.Conn().Prepare(t.Context(), path, text)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			for i, oid := range prepared.ParamOIDs {
				if oid == pgtype.UnknownOID {
					t.Errorf("%s: the type of $%d is not known", path, i+1)
				}
			}
		}
	}
	for path := range left {
		t.Errorf("%s is embedded nowhere", path)
	}
}

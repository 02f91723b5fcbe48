package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const postgresBinEnv = "BILLING_TEST_PG_BIN"

// asAccount lets cmd run as the server's user. PostgreSQL refuses to run as root.
func (s *PostgresServer) asAccount(cmd *exec.Cmd) {
	cmd.Dir = s.dir.path
	if s.account != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	}
}

// unprivileged is the user for a server that root starts, nil for any other caller.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil // nil is what os/exec takes for "the same user"
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(account.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read user id of %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(account.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read group id of %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("run PostgreSQL: it refuses root, and there is neither a user postgres nor nobody: run as another user")
}

// postgresBinaries is the folder of initdb and postgres: the one that is named, else the installed one, else a download.
func postgresBinaries(ctx context.Context) (string, error) {
	if bin := os.Getenv(postgresBinEnv); bin != "" {
		if !hasPostgres(bin) {
			return "", fmt.Errorf("find PostgreSQL: %s=%s holds no initdb and postgres", postgresBinEnv, bin)
		}
		return bin, nil
	}
	for _, bin := range installedPostgres() {
		if hasPostgres(bin) {
			return bin, nil
		}
	}
	bin, err := downloadPostgres(ctx)
	if err != nil {
		return "", fmt.Errorf("find PostgreSQL: none is installed and none can be downloaded (%w); install it by "+
			"`apt-get install -y postgresql` or `brew install postgresql@18`, or name the folder of its programs in %s", err, postgresBinEnv)
	}
	return bin, nil
}

// installedPostgres lists where it may be, the best first.
func installedPostgres() []string {
	var found []string
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(initdb); err == nil {
			found = append(found, filepath.Dir(real))
		}
	}
	newest, at := 0, ""
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin"} {
		bins, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		for _, bin := range bins {
			if v := versionOf(filepath.Dir(bin)); v > newest {
				newest, at = v, bin
			}
		}
	}
	return append(found, at)
}

// versionOf reads the number at the end of .../postgresql/18 or .../postgresql@18.
func versionOf(dir string) int {
	name := filepath.Base(dir)
	digits := len(name)
	for digits > 0 && name[digits-1] >= '0' && name[digits-1] <= '9' {
		digits--
	}
	version, err := strconv.Atoi(name[digits:])
	if err != nil {
		return 0
	}
	return version
}

func hasPostgres(bin string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(bin, name))
		if err != nil || info.IsDir() {
			return false
		}
	}
	return bin != ""
}

// downloadPostgres fetches PostgreSQL 18 once per machine. The library unpacks its archive only as a part of starting its own
// server, which it cannot do as root and which is of no use here: so it is let start one, and only the programs are kept.
func downloadPostgres(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	cache, err := binaryCache()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, "postgres-"+string(embeddedpostgres.V18))
	bin := filepath.Join(home, "bin")
	if hasPostgres(bin) {
		return bin, nil
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	runtimeDir, err := os.MkdirTemp("", "billing-pg-")
	if err != nil {
		return "", fmt.Errorf("create folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(runtimeDir) }()
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().Version(embeddedpostgres.V18).Port(uint32(port)).
		CachePath(cache).BinariesPath(home).RuntimePath(runtimeDir).Logger(io.Discard))
	startErr := server.Start()
	http.DefaultClient.CloseIdleConnections() // which the library used and leaves open
	if startErr == nil {
		if err := server.Stop(); err != nil {
			return "", fmt.Errorf("stop downloaded server: %w", err)
		}
	}
	if !hasPostgres(bin) {
		return "", fmt.Errorf("download PostgreSQL: %w", startErr)
	}
	return bin, nil
}

// binaryCache is a folder that survives the process and that the server's user can read, which root's home is not.
func binaryCache() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/billing-testkit", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w", err)
	}
	return filepath.Join(cache, "billing-testkit"), nil
}

package testkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"billing/migrations"
)

// postgresURLEnv names a running server for all packages of one `make test`: the URL of a superuser.
const postgresURLEnv = "BILLING_TEST_POSTGRES_URL"

const databaseTimeout = 60 * time.Second

// databases hands out clones of one migrated template. Making a clone takes a hundred times as long as emptying a used one,
// so a clone goes back on a free list; there are as many as tests run at once.
type databases struct {
	mu       sync.Mutex
	started  bool
	err      error // of the start: every test of the process says the same
	server   *PostgresServer
	admin    *pgxpool.Pool
	url      string // of the maintenance database
	prefix   string // of every name, so that processes can share a server
	template *pristine
	free     []*clone
	made     []string
	count    int
}

// shared is the process's own: starting a server for each package's tests is what makes suites slow.
var shared databases

// start makes server and template at the first call.
func (d *databases) start(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.started {
		d.started = true
		d.err = d.begin(ctx)
	}
	return d.err
}

func (d *databases) begin(ctx context.Context) error {
	d.url = os.Getenv(postgresURLEnv)
	if d.url == "" {
		server, err := StartPostgres(ctx, PostgresOptions{})
		if err != nil {
			return err
		}
		d.server, d.url = server, server.URL("postgres")
	}
	admin, err := pgxpool.New(ctx, d.url)
	if err != nil {
		return fmt.Errorf("connect to test server: %w", err)
	}
	d.admin = admin
	d.prefix = fmt.Sprintf("billing_%d_%06x_", os.Getpid(), rand.N(1<<24))
	name, err := d.newName("template")
	if err != nil {
		return err
	}
	if err := d.exec(ctx, "CREATE DATABASE %s", name); err != nil {
		return err
	}
	if err := migrations.Up(ctx, d.urlOf(name)); err != nil {
		return fmt.Errorf("migrate template: %w", err)
	}
	d.template, err = readPristine(ctx, d.urlOf(name), name)
	if err != nil {
		return err
	}
	return d.exec(ctx, "ALTER DATABASE %s ALLOW_CONNECTIONS false", name)
}

// newName counts a new database of this process; d.mu is held.
func (d *databases) newName(kind string) (string, error) {
	if d.admin == nil {
		return "", errors.New("name a database: the kit is closed")
	}
	d.count++
	name := fmt.Sprintf("%s%s_%d", d.prefix, kind, d.count)
	d.made = append(d.made, name)
	return name, nil
}

// take gives an empty database: a used one that could be put back into the template's state, else a new clone.
func (d *databases) take(ctx context.Context) (*clone, error) {
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	for {
		used, name, err := d.next()
		if err != nil {
			return nil, err
		}
		if used == nil {
			// file_copy takes half the time of the default, which logs every page.
			return &clone{name: name, url: d.urlOf(name)}, d.exec(ctx, "CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", name, d.template.name)
		}
		if used.restore(ctx, d.template) == nil {
			return used, nil
		}
		// A test has changed the schema: such a clone is not worth repairing.
		used.release(ctx)
		if err := d.drop(ctx, used.name); err != nil {
			return nil, err
		}
	}
}

// next is a used clone, or the name for a new one.
func (d *databases) next() (*clone, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.free) == 0 {
		name, err := d.newName("clone")
		return nil, name, err
	}
	used := d.free[len(d.free)-1]
	d.free = d.free[:len(d.free)-1]
	return used, "", nil
}

// put gives a database back.
func (d *databases) put(used *clone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, used)
}

// keep lets a database stay for somebody to look at, where the server stays too.
func (d *databases) keep(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = slices.DeleteFunc(d.made, func(n string) bool { return n == name })
}

func (d *databases) drop(ctx context.Context, name string) error {
	if err := d.exec(ctx, "DROP DATABASE IF EXISTS %s WITH (FORCE)", name); err != nil {
		return err
	}
	d.keep(name)
	return nil
}

// exec runs a statement on the maintenance database, in which names are quoted.
func (d *databases) exec(ctx context.Context, format string, names ...string) error {
	return execNames(ctx, d.admin, format, names...)
}

func (d *databases) urlOf(name string) string { return withDatabase(d.url, name) }

// close drops this process's databases, or stops its server; the kit can then start anew.
func (d *databases) close(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, unused := range d.free {
		unused.release(ctx)
	}
	if d.server == nil && d.admin != nil {
		for _, name := range d.made {
			errs = append(errs, d.exec(ctx, "DROP DATABASE IF EXISTS %s WITH (FORCE)", name))
		}
	}
	if d.admin != nil {
		d.admin.Close()
	}
	if d.server != nil {
		errs = append(errs, d.server.Close())
	}
	d.started, d.err, d.server, d.admin, d.template, d.free, d.made = false, nil, nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// execNames runs a statement with quoted names in it.
func execNames(ctx context.Context, admin *pgxpool.Pool, format string, names ...string) error {
	quoted := make([]any, len(names))
	for i, name := range names {
		quoted[i] = pgx.Identifier{name}.Sanitize()
	}
	sql := fmt.Sprintf(format, quoted...)
	if _, err := admin.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// withDatabase is a server's URL for another database.
func withDatabase(server, database string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server // connecting will say what is wrong with it
	}
	u.Path = "/" + database
	return u.String()
}

//go:build crashpoints

package point

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// armed is what the environment asked for. It is taken out of the environment, because the service refuses
// variables that it does not know.
var armed = struct {
	name string
	left atomic.Int64
}{name: os.Getenv("BILLING_CRASH_POINT")}

func init() {
	n, err := strconv.ParseInt(os.Getenv("BILLING_CRASH_HIT"), 10, 64)
	if err != nil {
		n = 1
	}
	armed.left.Store(n)
	_ = os.Unsetenv("BILLING_CRASH_POINT") // fails for invalid names only
	_ = os.Unsetenv("BILLING_CRASH_HIT")
}

// Hit ends the process by SIGKILL when this is the armed visit of the armed point. The line before it
// tells the harness that the point was reached and not something else.
func Hit(name string) {
	if armed.name != name || armed.left.Add(-1) != 0 {
		return
	}
	_, _ = os.Stdout.WriteString(`{"msg":"crash point reached","point":"` + name + "\"}\n")
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal arrives before anything else is done
}

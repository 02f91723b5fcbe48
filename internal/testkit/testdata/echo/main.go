// Command echo is what the tests of the kit run: it announces an address, and stops by SIGTERM with exit code 3. With the
// argument "parent" it runs itself once more and passes that one's output on.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"billing/internal/testkit"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "parent" {
		if _, err := testkit.StartProcess(testkit.ProcessOptions{Path: os.Args[0], Output: os.Stdout}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		select {}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, pair := range os.Environ() {
		if strings.HasPrefix(pair, "BILLING_") {
			say(map[string]string{"msg": "environment", "pair": pair})
		}
	}
	fmt.Fprintln(os.Stderr, "no json")
	say(map[string]string{"msg": "listening", "listener": "api", "addr": listener.Addr().String()})
	<-stop
	say(map[string]string{"msg": "stopped"})
	os.Exit(3)
}

func say(line map[string]string) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		os.Exit(1)
	}
}

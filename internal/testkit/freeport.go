package testkit

import (
	"fmt"
	"net"
)

// freePort asks the kernel for a port that nobody listens on now. Somebody may take it before it is used: callers try again.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return 0, fmt.Errorf("release port: %w", err)
	}
	return port, nil
}

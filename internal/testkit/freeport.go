package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports of what is restarted lie below the range that systems give to connections, or a connection of somebody else takes the
// port in the moment in which nobody listens.
const (
	lowestPort  = 15_000
	highestPort = 32_000
)

// listen listens at a port that stays free for this test when it is given up for a while.
func listen() (net.Listener, error) {
	var err error
	for range 100 {
		var listener net.Listener
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return listener, nil
		}
	}
	return nil, fmt.Errorf("find a free port: %w", err)
}

// freePort returns a port nobody listens on.
func freePort() (int, error) {
	listener, err := listen()
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return 0, fmt.Errorf("release port: %w", err)
	}
	return port, nil
}

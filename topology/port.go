package topology

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// host is where all servers of ours listen.
const host = "127.0.0.1"

// freePort finds a port that nobody listens on. It stays clear of the ports that the
// kernel gives to outgoing connections: one of those could take a dead server's port
// before it restarts, or even connect to itself there; and of those that proxies
// listen on (package network), one of which may be cut at the moment.
func freePort() (int, error) {
	const lowest, highest = 10240, 20_000
	for range 100 {
		port := lowest + rand.IntN(min(ephemeral(), highest)-lowest)
		if l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, fmt.Errorf("looking for a free port on %s: %w", host, err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// ephemeral is the lowest port of outgoing connections.
func ephemeral() int {
	const usual = 32768 // Linux; elsewhere it is 49152, so this is on the safe side
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	var low, high int
	if _, err := fmt.Sscan(string(text), &low, &high); err != nil || low <= 11000 {
		return usual
	}
	return low
}

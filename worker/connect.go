package worker

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Time limits of a client's connections, on the long side of what services use: a
// pause in a scenario must not turn into a time-out by itself.
const (
	dialTimeout = 1 * time.Second
	ioTimeout   = 3 * time.Second
)

// Quiet keeps go-redis from writing to the process's standard error: everything it
// has to say comes as an error too, and a dead server is what many scenarios are
// about.
func Quiet() { redis.SetLogger(silence{}) }

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// Connect returns a client that makes exactly one attempt per command. go-redis
// would otherwise retry by itself, and the answer to the second attempt ("taken")
// would hide what became of the first.
func Connect(addr string, connections int) redis.UniversalClient {
	return redis.NewClient(&redis.Options{
		Addr:                     addr,
		MaxRetries:               -1,
		DialerRetries:            1,
		DialTimeout:              dialTimeout,
		ReadTimeout:              ioTimeout,
		WriteTimeout:             ioTimeout,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		PoolSize:                 connections,
	})
}

// connectSentinel follows the primary that the Sentinels name. redirect maps the
// addresses they announce to this worker's own links.
func connectSentinel(master string, sentinels []string, redirect map[string]string, connections int) redis.UniversalClient {
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    master,
		SentinelAddrs: sentinels,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if own, ok := redirect[addr]; ok {
				addr = own
			}
			d := net.Dialer{Timeout: dialTimeout}
			return d.DialContext(ctx, network, addr)
		},
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           dialTimeout,
		ReadTimeout:           ioTimeout,
		WriteTimeout:          ioTimeout,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
		PoolSize:              connections,
	})
}

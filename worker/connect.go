package worker

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// IOTimeout is how long a client's connection waits for an answer.
const IOTimeout = 3 * time.Second

// Time limits of a client's connections, on the long side of what services use: a
// pause in a scenario must not turn into a time-out by itself.
const (
	dialTimeout = 1 * time.Second
	ioTimeout   = IOTimeout
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
	return connect(addr, connections, 0)
}

// connect returns a client that repeats a command up to so many times by itself.
func connect(addr string, connections, retries int) redis.UniversalClient {
	if retries == 0 {
		retries = -1 // go-redis takes 0 for its default
	}
	return redis.NewClient(&redis.Options{
		Addr:                     addr,
		MaxRetries:               retries,
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

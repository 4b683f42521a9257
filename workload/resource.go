package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Resource is the counter that the lock protects.
type Resource interface {
	// Read returns the counter. fence is the reader's fencing token, 0 if it
	// has none.
	Read(ctx context.Context, fence int64) (int64, error)
	// Write stores the counter, or returns [ErrStale] and stores nothing.
	Write(ctx context.Context, value, fence int64) error
}

// ErrStale is the guard's refusal of a fencing token older than the newest seen.
var ErrStale = errors.New("a newer fencing token has been seen")

// Guard is a way in which the resource defends itself.
type Guard struct {
	Name    string
	Summary string
	// Fenced guards need a lock that gives fencing tokens.
	Fenced bool
	// Redis makes the guarded counter of a key on a Redis server.
	Redis func(client redis.UniversalClient, key string) Resource
}

// Guards known.
func Guards() []Guard {
	return []Guard{
		{
			Name:    "none",
			Summary: "the resource trusts the lock: read, think, write",
			Redis:   func(c redis.UniversalClient, key string) Resource { return plain{c, key} },
		},
		{
			Name:    "fenced",
			Summary: "an access with a fencing token older than the newest seen is refused",
			Fenced:  true,
			Redis:   func(c redis.UniversalClient, key string) Resource { return fenced{c, key} },
		},
	}
}

// FindGuard returns the named guard; the error lists the known ones.
func FindGuard(name string) (Guard, error) {
	var names []string
	for _, g := range Guards() {
		if g.Name == name {
			return g, nil
		}
		names = append(names, g.Name)
	}
	return Guard{}, fmt.Errorf("unknown guard %q; known are %s", name, strings.Join(names, ", "))
}

// Counter reads the counter of a key beside any guard, as an auditor does.
func Counter(ctx context.Context, client redis.UniversalClient, key string) (int64, error) {
	return client.Get(ctx, key).Int64()
}

type plain struct {
	client redis.UniversalClient
	key    string
}

func (p plain) Read(ctx context.Context, _ int64) (int64, error) {
	return Counter(ctx, p.client, p.key)
}

func (p plain) Write(ctx context.Context, value, _ int64) error {
	return p.client.Set(ctx, p.key, value, 0).Err()
}

// fenced keeps the newest fencing token seen beside the counter. Reads show their
// token too: if only writes did, a stale write could land after the new holder's
// read and before its write, and be overwritten by it.
type fenced struct {
	client redis.UniversalClient
	key    string
}

// fencedAccess answers −1 to a token older than the newest seen. KEYS: counter,
// newest token. ARGV: token, and the value to store if any.
var fencedAccess = redis.NewScript(`
local newest = tonumber(redis.call('GET', KEYS[2]) or '0')
if tonumber(ARGV[1]) < newest then return {-1, ''} end
redis.call('SET', KEYS[2], ARGV[1])
if ARGV[2] then redis.call('SET', KEYS[1], ARGV[2]) end
return {0, redis.call('GET', KEYS[1])}`)

func (f fenced) run(ctx context.Context, args ...any) (int64, error) {
	reply, err := fencedAccess.Run(ctx, f.client, []string{f.key, f.key + ":newest"}, args...).Slice()
	if err != nil {
		return 0, err
	}
	if status, _ := reply[0].(int64); status < 0 {
		return 0, ErrStale
	}
	text, _ := reply[1].(string)
	var value int64
	if _, err := fmt.Sscan(text, &value); err != nil {
		return 0, fmt.Errorf("the counter %s holds %q, not a number: %w", f.key, text, err)
	}
	return value, nil
}

func (f fenced) Read(ctx context.Context, fence int64) (int64, error) {
	return f.run(ctx, fence)
}

func (f fenced) Write(ctx context.Context, value, fence int64) error {
	_, err := f.run(ctx, fence, value)
	return err
}

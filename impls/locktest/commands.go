package locktest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Commands is a hook that notes the name of every command sent on a connection, and
// can stand in its way.
type Commands struct {
	// Before and After, if not nil, are called before every command, and after
	// every one that was answered without an error; an error of theirs takes the
	// place of the answer. Set them before the connection is used.
	Before, After func(ctx context.Context, cmd redis.Cmder) error

	mu    sync.Mutex
	names []string
}

// Watch adds a hook to a connection.
func Watch(c redis.UniversalClient) *Commands {
	h := &Commands{}
	c.AddHook(h)
	return h
}

// Names returns the commands so far, in upper case, without those that open a
// connection.
func (h *Commands) Names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.names)
}

// Reset forgets them.
func (h *Commands) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names = nil
}

// DialHook implements redis.Hook.
func (h *Commands) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h *Commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		name := strings.ToUpper(cmd.Name())
		if name == "HELLO" || name == "CLIENT" { // a new connection
			return next(ctx, cmd)
		}
		h.mu.Lock()
		h.names = append(h.names, name)
		h.mu.Unlock()
		if h.Before != nil {
			if err := h.Before(ctx, cmd); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		err := next(ctx, cmd)
		if h.After != nil && err == nil {
			if err := h.After(ctx, cmd); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h *Commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

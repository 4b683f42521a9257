package runner

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

const (
	// fillerSize is the size of one value written to fill a server, in bytes.
	fillerSize = 128 << 10
	// spareMemory is what a server gets beyond what it uses, in bytes.
	spareMemory = 4 << 20
	// fillers bounds the filling: an evicting server could go on for ever.
	fillers = 5000
	// fillerPrefix begins the names of what is written; it is not [Prefix], which
	// is what the filling waits to see gone.
	fillerPrefix = "lockstress-filler:"
)

func (s *stage) Fill(ctx context.Context, node, policy string) (refusal string, err error) {
	s.dirty = true
	n, err := s.node(node)
	if err != nil {
		return "", err
	}
	used, err := s.Info(ctx, node, "used_memory")
	if err != nil {
		return "", err
	}
	limit := used + spareMemory
	if err := s.Order(ctx, node, "CONFIG", "SET", "maxmemory-policy", policy, "maxmemory", limit); err != nil {
		return "", err
	}
	for i := range fillers {
		// A long string from a short command: the witness is shown every command.
		err := n.Client().SetRange(ctx, fmt.Sprint(fillerPrefix, i), fillerSize, "x").Err()
		if redis.HasErrorPrefix(err, "OOM") {
			return err.Error(), nil
		}
		if err != nil {
			return "", fmt.Errorf("filling %s (%s): %w", n.Name, n.Addr, err)
		}
		left, err := n.Client().Keys(ctx, Prefix+"*").Result()
		if err != nil {
			return "", fmt.Errorf("asking %s (%s) for the lock's keys: %w", n.Name, n.Addr, err)
		}
		if len(left) == 0 {
			return "", nil
		}
	}
	return "", fmt.Errorf("filling %s (%s), policy %s: the lock's keys were still there after %d values of %d bytes", n.Name, n.Addr, policy, fillers, fillerSize)
}

func (s *stage) Relieve(ctx context.Context, node string) error {
	n, err := s.node(node)
	if err != nil {
		return err
	}
	if err := s.Order(ctx, node, "CONFIG", "SET", "maxmemory", 0); err != nil {
		return err
	}
	filled, err := n.Client().Keys(ctx, fillerPrefix+"*").Result()
	if err == nil && len(filled) > 0 {
		err = n.Client().Unlink(ctx, filled...).Err()
	}
	if err != nil {
		return fmt.Errorf("removing what %s (%s) was filled with: %w", n.Name, n.Addr, err)
	}
	return nil
}

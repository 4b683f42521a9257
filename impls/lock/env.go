package lock

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Check refuses an Env that no lock can work with.
func (e Env) Check() error {
	switch {
	case len(e.Nodes) == 0:
		return errors.New("building a lock: Env.Nodes is empty, give at least one connection")
	case e.TTL < time.Millisecond:
		return fmt.Errorf("building a lock: Env.TTL is %v, Redis counts expiry in whole milliseconds from 1", e.TTL)
	case e.RetryMin <= 0 || e.RetryMax < e.RetryMin:
		return fmt.Errorf("building a lock: Env.RetryMin %v and RetryMax %v must be positive and in order", e.RetryMin, e.RetryMax)
	case e.Rand == nil:
		return errors.New("building a lock: Env.Rand is nil, the pauses between attempts need it")
	}
	for i, node := range e.Nodes {
		if node == nil {
			return fmt.Errorf("building a lock: Env.Nodes[%d] is nil", i)
		}
	}
	return nil
}

// Single checks e for a lock that lives on one node, and returns that node.
func (e Env) Single() (redis.UniversalClient, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	if len(e.Nodes) != 1 {
		return nil, fmt.Errorf("building a lock: it lives on one node, Env.Nodes has %d", len(e.Nodes))
	}
	return e.Nodes[0], nil
}

// Punctual refuses connections on which the deadline of a context does not cut a
// read short. go-redis heeds it only with ContextTimeoutEnabled, which is off by
// default; a lock whose safety or patience hangs on a timeout of its own cannot do
// without. Kinds of connections that do not show their options are let pass.
func (e Env) Punctual() error {
	for i, node := range e.Nodes {
		on := true
		switch c := node.(type) {
		case *redis.Client:
			on = c.Options().ContextTimeoutEnabled
		case *redis.ClusterClient:
			on = c.Options().ContextTimeoutEnabled
		case *redis.Ring:
			on = c.Options().ContextTimeoutEnabled
		}
		if !on {
			return fmt.Errorf("building a lock: Env.Nodes[%d] does not heed context deadlines, set ContextTimeoutEnabled in its options", i)
		}
	}
	return nil
}

package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"

	"lockstress/history"
	"lockstress/impls"
	"lockstress/impls/lock"
	"lockstress/workload"

	"github.com/redis/go-redis/v9"
)

// Run is the worker process: it reads its [Config] and then orders from in, and
// writes a [Stop] a line to out. It returns when in ends, which is how the
// coordinator ends it, also by dying.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := json.NewDecoder(bufio.NewReader(in))
	var config Config
	if err := lines.Decode(&config); err != nil {
		return fmt.Errorf("reading the worker's configuration: %w", err)
	}
	var mu sync.Mutex
	answers := json.NewEncoder(out)
	say := func(s Stop) error {
		mu.Lock()
		defer mu.Unlock()
		return answers.Encode(s)
	}
	clients, done, err := hire(&config, say)
	if err != nil {
		say(Stop{Fatal: err.Error()})
		return err
	}
	defer done()
	bySlot := map[int]*client{}
	for _, c := range clients {
		bySlot[c.slot] = c
		go func() {
			if err := c.obey(ctx); err != nil {
				say(Stop{Client: c.slot, Fatal: fmt.Sprintf("client %d: %v", c.slot, err)})
			}
		}()
	}
	if err := say(Stop{Ready: true}); err != nil {
		return err
	}
	for {
		var m message
		if err := lines.Decode(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("reading an order: %w", err)
		}
		if c := bySlot[m.Client]; c != nil {
			c.orders <- m
		}
	}
}

// hire makes the worker's clients, and a function that ends what they use.
func hire(config *Config, say func(Stop) error) (clients []*client, done func(), err error) {
	var closers []io.Closer
	done = func() {
		for _, c := range closers {
			c.Close()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	info, err := impls.Find(config.Header.Lock)
	if err != nil {
		return nil, nil, err
	}
	work, err := workload.Find(config.Header.Workload)
	if err != nil {
		return nil, nil, err
	}
	guard, err := workload.FindGuard(config.Header.Guard)
	if err != nil {
		return nil, nil, err
	}
	rec, err := history.Create(config.Journal, config.Header)
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, rec)

	// A client, its heartbeat, and a spare each.
	connections := 4 * len(config.Clients)
	var nodes []redis.UniversalClient
	for _, addr := range config.Nodes {
		nodes = append(nodes, connect(addr, connections, config.Retries))
	}
	if len(config.Sentinels) > 0 {
		nodes = append(nodes, connectSentinel(config.Master, config.Sentinels, config.Redirect, connections))
	}
	for _, n := range nodes {
		closers = append(closers, n)
	}
	var resource workload.Resource
	if config.Resource != "" {
		c := Connect(config.Resource, connections)
		closers = append(closers, c)
		resource = guard.Redis(c, config.ResourceKey)
	}
	for _, slot := range config.Clients {
		c := &client{
			slot: slot, config: config, rec: rec, work: work, resource: resource, stops: say,
			rand: rand.New(rand.NewPCG(uint64(config.Header.Seed), uint64(slot))),
			// The coordinator sends one message at a time to a client, and a
			// second only to free it.
			orders:  make(chan message, 2),
			process: config.Header.Process(slot, history.ClientRole, 0),
		}
		c.beat = heartbeat{client: c, hold: map[string]int64{}}
		c.lock, err = info.New(lock.Env{
			Nodes: nodes, TTL: config.TTL, RetryMin: config.RetryMin, RetryMax: config.RetryMax,
			Rand:     rand.New(rand.NewPCG(uint64(config.Header.Seed), uint64(slot)|1<<32)),
			Extended: &c.beat,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("making the lock %s: %w", info.Name, err)
		}
		closers = append(closers, c.lock)
		clients = append(clients, c)
	}
	return clients, done, nil
}

package redlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// distinct refuses nodes that are certainly the same server: a majority of
// connections would not be a majority of servers. Addresses alone do not tell, since
// one server has several names and a proxy has another.
func distinct(nodes []redis.UniversalClient) error {
	ids := make([]string, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() { ids[i] = runID(node) })
	}
	addrs := map[string]int{}
	for i, node := range nodes {
		client, ok := node.(*redis.Client)
		if !ok {
			continue
		}
		// A Sentinel client's address is no address at all, but the same word for all.
		opt := client.Options()
		if opt.Addr == "FailoverClient" {
			continue
		}
		addr := opt.Network + " " + opt.Addr
		if j, seen := addrs[addr]; seen {
			wg.Wait()
			return fmt.Errorf("building redlock: nodes %d and %d are the same server at %s, give independent ones", j+1, i+1, opt.Addr)
		}
		addrs[addr] = i
	}
	wg.Wait()
	seen := map[string]int{}
	for i, id := range ids {
		if id == "" {
			continue
		}
		if j, ok := seen[id]; ok {
			return fmt.Errorf("building redlock: nodes %d and %d are the same server, run id %s, give independent ones", j+1, i+1, id)
		}
		seen[id] = i
	}
	return nil
}

// runID asks a server for its run id, "" if it does not tell in time.
func runID(node redis.UniversalClient) string {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	info, err := node.Info(ctx, "server").Result()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

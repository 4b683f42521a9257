package network

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"lockstress/faults/network/gate"
)

// Link is one way to one server, with faults of its own. Its methods may be called
// concurrently.
type Link struct {
	proxy  *Proxy
	name   string
	addr   string
	gate   string     // name of its gate in the proxy process; "" on a stock Toxiproxy
	mu     sync.Mutex // guards what follows, and orders changes
	remote *toxiproxy.Proxy
	toxics map[string]bool // names of the toxics that are in place
}

// Names that a URL path carries unescaped, as Toxiproxy's client puts them there.
var linkName = regexp.MustCompile(`^[A-Za-z0-9._:-]+$`)

// Link makes a link to upstream (host:port), listening on a port of 127.0.0.1 that it
// keeps until [Link.Close], through every cut. The name is unique at the proxy.
func (p *Proxy) Link(name, upstream string) (*Link, error) {
	if !linkName.MatchString(name) {
		return nil, fmt.Errorf("making link %q: a name is made of letters, digits and . _ : -", name)
	}
	remote := p.client.NewProxy()
	remote.Name, remote.Upstream = name, upstream
	l := &Link{proxy: p, name: name, remote: remote, toxics: map[string]bool{}}
	if err := l.listen(); err != nil {
		return nil, fmt.Errorf("making link %s to %s: %w", name, upstream, err)
	}
	return l, nil
}

func (l *Link) listen() error {
	// Not listening yet: the gate must be there before the first connection.
	l.addr = l.proxy.somePort()
	l.remote.Listen = l.addr
	if err := l.remote.Save(); err != nil {
		l.proxy.freePort(l.addr)
		return err
	}
	if err := l.installGate(); err != nil {
		return errors.Join(err, l.Close())
	}
	for attempt := 0; ; attempt++ {
		err := l.remote.Enable()
		switch {
		case err == nil:
			return nil
		case !portTaken(err) || attempt == 50:
			return errors.Join(err, l.Close())
		}
		l.proxy.freePort(l.addr)
		l.addr = l.proxy.somePort()
		l.remote.Listen = l.addr
	}
}

func (l *Link) installGate() error {
	if !l.proxy.gates {
		return nil
	}
	l.gate = rand.Text()
	if err := l.ask(context.Background(), http.MethodPut, "", nil, &struct{}{}); err != nil {
		return err
	}
	for side, stream := range map[string]string{gate.Commands: "upstream", gate.Replies: "downstream"} {
		if _, err := l.remote.AddToxic(gate.ToxicType+"_"+side, gate.ToxicType, stream, 1, toxiproxy.Attributes{
			"gate": l.gate, "side": side,
		}); err != nil {
			return err
		}
	}
	return nil
}

// somePort reserves a port below those that Linux hands out (32768 and up): while a
// link is cut nobody listens on its port, and any process asking for a port, or
// connecting somewhere, could be given it. Below 20000 are the servers' (package
// topology).
func (p *Proxy) somePort() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(20_000+mathrand.IntN(12_700)))
		if !p.ports[addr] {
			p.ports[addr] = true
			return addr
		}
	}
}

func (p *Proxy) freePort(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ports, addr)
}

func portTaken(err error) bool {
	return err != nil && strings.Contains(err.Error(), "address already in use")
}

// Name is the name given to [Proxy.Link].
func (l *Link) Name() string { return l.name }

// Addr is where the link listens, host:port.
func (l *Link) Addr() string { return l.addr }

// Repoint sends new connections to another server, as when a virtual address moves;
// the present ones are cut. On a link that is cut it takes effect once it heals.
func (l *Link) Repoint(upstream string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.remote.Upstream
	l.remote.Upstream = upstream
	if err := l.save(); err != nil {
		l.remote.Upstream = before
		return fmt.Errorf("repointing link %s to %s: %w", l.name, upstream, err)
	}
	return nil
}

// Cut closes every connection and refuses new ones, until [Link.Heal].
func (l *Link) Cut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remote.Enabled = false
	if err := l.save(); err != nil {
		return fmt.Errorf("cutting link %s: %w", l.name, err)
	}
	return nil
}

// Blackhole lets connections stand, and be made, but all bytes vanish until
// [Link.Heal], in both directions. Healing closes the connections that were open:
// bytes are missing in them. For a partition after which TCP would deliver late, hold
// "*" instead and release it.
func (l *Link) Blackhole() error {
	return l.change("blackhole", toxiproxy.Attributes{"timeout": 0}, "timeout")
}

// Latency delays everything by d ± jitter in each direction, so a round trip takes 2 d
// longer. Whole milliseconds; 0 for both ends it.
func (l *Link) Latency(d, jitter time.Duration) error {
	if d < 0 || jitter < 0 || (d > 0 && d < time.Millisecond) {
		return fmt.Errorf("delaying link %s by %v ± %v: whole milliseconds are needed", l.name, d, jitter)
	}
	if d == 0 && jitter == 0 {
		return l.end("latency")
	}
	return l.change("latency", toxiproxy.Attributes{"latency": d.Milliseconds(), "jitter": jitter.Milliseconds()}, "latency")
}

// Bandwidth limits each direction to so many kilobytes a second; 0 ends the limit.
func (l *Link) Bandwidth(rate int64) error {
	if rate < 0 {
		return fmt.Errorf("limiting link %s to %d KB/s: a rate is positive", l.name, rate)
	}
	if rate == 0 {
		return l.end("bandwidth")
	}
	return l.change("bandwidth", toxiproxy.Attributes{"rate": rate}, "bandwidth")
}

// Heal ends a cut, a blackhole, latency and limits. Holds and drops stay: they have
// ends of their own.
func (l *Link) Heal() error {
	err := errors.Join(l.end("blackhole"), l.end("latency"), l.end("bandwidth"))
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remote.Enabled = true
	if err := l.save(); err != nil {
		return fmt.Errorf("healing link %s: %w", l.name, err)
	}
	return nil
}

// Close removes the link. What it holds is dropped with its connections.
func (l *Link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.remote.Delete()
	l.proxy.freePort(l.addr)
	if l.gate != "" {
		err = errors.Join(err, l.ask(context.Background(), http.MethodDelete, "", nil, &struct{}{}))
	}
	if err != nil {
		return fmt.Errorf("closing link %s: %w", l.name, err)
	}
	return nil
}

// save writes the remote's fields. Somebody else may be passing through the port of a
// link that was cut, so a port that is taken is asked for again for a while. The caller
// holds mu.
func (l *Link) save() error {
	want := l.remote.Enabled
	for attempt := 0; ; attempt++ {
		l.remote.Listen = l.addr
		l.remote.Enabled = want
		err := l.remote.Save()
		if !portTaken(err) || attempt == 100 {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *Link) change(name string, attributes toxiproxy.Attributes, kind string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, stream := range []string{"upstream", "downstream"} {
		toxic := name + "_" + stream
		var err error
		if l.toxics[toxic] {
			_, err = l.remote.UpdateToxic(toxic, 1, attributes)
		} else {
			_, err = l.remote.AddToxic(toxic, kind, stream, 1, attributes)
		}
		if err != nil {
			return fmt.Errorf("setting %s on link %s: %w", toxic, l.name, err)
		}
		l.toxics[toxic] = true
	}
	return nil
}

func (l *Link) end(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, stream := range []string{"upstream", "downstream"} {
		toxic := name + "_" + stream
		if !l.toxics[toxic] {
			continue
		}
		if err := l.remote.RemoveToxic(toxic); err != nil {
			return fmt.Errorf("ending %s on link %s: %w", toxic, l.name, err)
		}
		delete(l.toxics, toxic)
	}
	return nil
}

// ask speaks with the link's gate.
func (l *Link) ask(ctx context.Context, method, path string, in, out any) error {
	if l.gate == "" {
		return ErrNoHold
	}
	return l.proxy.request(ctx, method, gate.Prefix+l.gate+path, in, out)
}

// Package network bends the links between the processes of a trial: a Toxiproxy server
// in a process of its own ([Serve]), and the coordinator's side of it ([Proxy], [Link]).
//
// Beside Toxiproxy's own toxics the server carries package gate, which keeps back
// commands or replies and swallows replies ([Link.Hold], [Link.DropReply]).
package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"lockstress/faults/network/gate"
)

// Serve runs a Toxiproxy server with our toxics until ctx ends or stdin, if there is
// one, reaches its end: the coordinator holds the other end of that pipe. It writes the
// address of the HTTP interface to w as one line. verbose takes Toxiproxy's log; nil is
// silence.
func Serve(ctx context.Context, w io.Writer, stdin io.Reader, verbose io.Writer) error {
	gate.Register()
	logger := zerolog.Nop()
	if verbose == nil {
		// Some of Toxiproxy's toxics log past the logger they are given.
		zerolog.SetGlobalLevel(zerolog.Disabled)
	} else {
		logger = zerolog.New(verbose).With().Timestamp().Logger()
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), logger)
	gates := gate.NewHandler()
	routes := http.NewServeMux()
	routes.Handle(gate.Prefix, gates)
	routes.Handle("/", server.Routes())

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the proxy's HTTP interface: %w", err)
	}
	// No limit on writing: a request that awaits an event is answered when it happens.
	api := &http.Server{
		Handler:           routes,
		ReadHeaderTimeout: 15 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { stop(api.Serve(listener)) }()
	if stdin != nil {
		go func() {
			io.Copy(io.Discard, stdin)
			stop(nil)
		}()
	}
	if _, err := fmt.Fprintln(w, listener.Addr()); err != nil {
		stop(fmt.Errorf("announcing the proxy's address: %w", err))
	}

	<-ctx.Done()
	api.Close()
	server.Collection.Clear()
	gates.Close()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

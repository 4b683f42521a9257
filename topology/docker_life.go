package topology

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// callTimeout bounds a request to Docker that nobody else bounds.
const callTimeout = 30 * time.Second

// dockerised is one life of a server in a container. It implements [life]. The
// container goes as soon as the server has ended, however it ended.
type dockerised struct {
	*docker
	node   string // of the server
	name   string // of the container
	forget func() // withdraws the removal at the end of the group
	done   chan struct{}
	err    error
}

// start creates and starts the container, and returns the number of its process.
func (c *dockerised) start(ctx context.Context, log io.Writer, request testcontainers.ContainerRequest) (pid int, err error) {
	// Who gives up waiting for a creation would not know what to remove.
	creating, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	box, err := c.provider.CreateContainer(creating, request)
	if err != nil {
		return 0, err
	}
	id := box.GetContainerID()
	// Listening begins before the start, so that a short life is not missed.
	watching, stop := context.WithCancel(context.Background())
	exit := c.client().ContainerWait(watching, id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if err := box.Start(ctx); err != nil {
		stop()
		return 0, err
	}
	logs, err := c.client().ContainerLogs(watching, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
	if err != nil {
		stop()
		return 0, fmt.Errorf("following the log: %w", err)
	}
	go func() {
		defer stop()
		c.follow(exit, logs, log)
	}()
	state, err := box.State(ctx)
	if err != nil {
		// follow removes it: it is only that nobody else may.
		c.Kill()
		<-c.done
		return 0, fmt.Errorf("asking for the state: %w", err)
	}
	return state.Pid, nil
}

// follow copies the log until the server has ended, and removes the container.
func (c *dockerised) follow(exit client.ContainerWaitResult, logs io.ReadCloser, log io.Writer) {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		stdcopy.StdCopy(log, log, logs)
	}()
	select {
	case r := <-exit.Result:
		if r.StatusCode != 0 {
			c.err = fmt.Errorf("exit status %d", r.StatusCode)
		}
	case err := <-exit.Error:
		c.err = fmt.Errorf("waiting for container %s: %w", c.name, err)
	}
	// Its last words are on their way, and say why it ended.
	select {
	case <-copied:
	case <-time.After(time.Second):
	}
	logs.Close()
	<-copied
	c.err = errors.Join(c.err, c.remove())
	close(c.done)
}

// remove removes the container if there is one. If that fails, it is tried once more
// at the end of the group.
func (c *dockerised) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := c.client().ContainerRemove(ctx, c.name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing container %s: %w", c.name, err)
	}
	c.forget()
	return nil
}

// Signal implements [life]. SIGSTOP and SIGCONT pause and resume the container.
func (c *dockerised) Signal(sig syscall.Signal) error {
	select {
	case <-c.done:
		return fmt.Errorf("%s (container %s) has already ended", c.node, c.name)
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var err error
	switch sig {
	case syscall.SIGSTOP:
		_, err = c.client().ContainerPause(ctx, c.name, client.ContainerPauseOptions{})
	case syscall.SIGCONT:
		_, err = c.client().ContainerUnpause(ctx, c.name, client.ContainerUnpauseOptions{})
	default:
		_, err = c.client().ContainerKill(ctx, c.name, client.ContainerKillOptions{Signal: strconv.Itoa(int(sig))})
	}
	if err != nil {
		return fmt.Errorf("sending %v to %s (container %s): %w", sig, c.node, c.name, err)
	}
	return nil
}

// Kill implements [life], with SIGKILL: a container that is stopped would be asked
// first, and would have time to write.
func (c *dockerised) Kill() error {
	err := c.Signal(syscall.SIGKILL)
	if err == nil || errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil // gone already, or going
	}
	select {
	case <-c.done:
		return nil
	default:
		return err
	}
}

// Done implements [life].
func (c *dockerised) Done() <-chan struct{} { return c.done }

// Err implements [life].
func (c *dockerised) Err() error { return c.err }

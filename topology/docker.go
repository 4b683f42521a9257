package topology

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"lockstress/internal/proc"
)

var (
	// ErrNoDocker: there is no Docker daemon to talk to.
	ErrNoDocker = errors.New("no Docker daemon answers: start Docker, or leave --redis-image out to use redis-server from the PATH")
	// ErrNoImage: the image is neither here nor to be pulled.
	ErrNoImage = errors.New("no such image: pull it with `docker pull`, or make one of this machine's redis-server with scripts/docker-image")
)

// ContainerStartTimeout bounds [Start] and [Node.Restart] with containers.
const ContainerStartTimeout = time.Minute

// pullTimeout bounds the pulling of an image that is not here yet.
const pullTimeout = 5 * time.Minute

// Label is on every container of ours; its value is the name of the server.
const Label = "lockstress"

// docker is the engine for containers. They share the network of the machine, so that
// proxies on 127.0.0.1 reach them and they reach proxies, just as processes do.
type docker struct {
	provider *testcontainers.DockerProvider
	image    string
	group    *proc.Group
	remove   []string // command that removes the container named after it
}

// newDocker connects to the daemon and makes sure of the image.
func newDocker(ctx context.Context, group *proc.Group, image string) (*docker, error) {
	setUp()
	// The command works when we no longer do.
	command, err := exec.LookPath("docker")
	if err != nil {
		return nil, fmt.Errorf("looking for the docker command, which removes containers after a run that was killed: %w (%w)", ErrNoDocker, err)
	}
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoDocker, err)
	}
	d := &docker{provider: provider, image: image, group: group}
	d.remove = []string{command, "--host", d.client().DaemonHost(), "rm", "--force", "--volumes"}
	if err := d.pull(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// setUp makes testcontainers quiet and does without its reaper, a container that would
// have to be pulled and outlives a run by ten seconds: the guardian of [proc.Group]
// removes the containers of a killed run. Who wants both sets
// TESTCONTAINERS_RYUK_DISABLED to false.
var setUp = sync.OnceFunc(func() {
	log.SetDefault(log.NewNoopLogger())
	const disabled = "TESTCONTAINERS_RYUK_DISABLED" // testcontainers reads it once
	if os.Getenv(disabled) == "" {
		os.Setenv(disabled, "true")
	}
})

func (d *docker) client() client.APIClient { return d.provider.Client() }

func (d *docker) timeout() time.Duration { return ContainerStartTimeout }

func (d *docker) advice() string {
	return "\nThe container is ready, but its port is not on 127.0.0.1 of this machine: Docker must run here," +
		" and on this machine's network. Docker Desktop: Settings, Resources, Network, Enable host networking. See docs/docker.md"
}

// pull makes sure that the image is here. It tries once: the library would go on for
// as long as it is let.
func (d *docker) pull(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	_, err := d.client().ImageInspect(ctx, d.image)
	if err == nil {
		return nil
	}
	if !errdefs.IsNotFound(err) {
		return fmt.Errorf("asking Docker for image %s: %w", d.image, err)
	}
	pull, err := d.client().ImagePull(ctx, d.image, client.ImagePullOptions{})
	if err == nil {
		err = pull.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("image %s: %w (pulling it: %w)", d.image, ErrNoImage, err)
	}
	return nil
}

func (d *docker) launch(ctx context.Context, name, dir, ready string, args ...string) (*server, error) {
	c := &dockerised{docker: d, node: name, name: "lockstress-" + name + "-" + randomID()[:12], done: make(chan struct{})}
	forget, err := d.group.AtEnd(append(d.remove[:len(d.remove):len(d.remove)], c.name)...)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	c.forget = forget
	s := &server{life: c, log: newLogTail(ready)}
	if s.Pid, err = c.start(ctx, s.log, d.request(c, dir, args)); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s in a container of %s: %w", name, d.image, err), c.remove())
	}
	return s.await(ctx, name, args)
}

// request describes the container. Its folder is at the same path inside, so that
// arguments mean the same.
func (d *docker) request(c *dockerised, dir string, args []string) testcontainers.ContainerRequest {
	return testcontainers.ContainerRequest{
		Image:      d.image,
		Name:       c.name,
		Labels:     map[string]string{Label: c.node},
		Entrypoint: []string{"redis-server"},
		Cmd:        args,
		ConfigModifier: func(config *container.Config) {
			// What the server writes must be ours to remove.
			config.User = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
			config.WorkingDir = dir
		},
		HostConfigModifier: func(host *container.HostConfig) {
			host.NetworkMode = "host"
			host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: dir, Target: dir})
		},
	}
}

package topology

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockstress/internal/proc"
)

// Commands of the test binary, so that it can be killed as a coordinator would be.
const (
	dockerCoordinator = "docker-coordinator"
	dockerGuardian    = "docker-guardian"
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == dockerCoordinator:
		err = coordinateDocker(os.Args[2])
	case len(os.Args) == 2 && os.Args[1] == dockerGuardian:
		err = proc.Guardian(os.Stdin)
	default:
		code := m.Run()
		if builtImage != "" {
			exec.Command("docker", "rmi", builtImage).Run()
		}
		os.Exit(code)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// coordinateDocker starts servers, says which containers they are, and stays.
func coordinateDocker(image string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	g, err := proc.NewGroup(self, dockerGuardian)
	if err != nil {
		return err
	}
	top, err := Start(context.Background(), g, Spec{Kind: Independent, Nodes: 2, Image: image}, nil)
	if err != nil {
		return err
	}
	if err := top.Nodes()[1].Pause(); err != nil {
		return err
	}
	for _, n := range top.Nodes() {
		fmt.Println(containerOf(n))
	}
	fmt.Println()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

var builtImage string // by dockerImage

// dockerImage makes the image of this machine's redis-server, once.
var dockerImage = sync.OnceValues(func() (string, error) {
	name := fmt.Sprintf("stress-redis:test-%d", os.Getpid())
	out, err := exec.Command("../scripts/docker-image", name).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("scripts/docker-image %s: %w\n%s", name, err, out)
	}
	builtImage = name
	return name, nil
})

// needDocker returns the image to use; where there is no Docker it skips the test,
// except in CI.
func needDocker(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no Docker: %v\n%s", err, out)
		}
		t.Skipf("no Docker daemon answers (root: scripts/docker-up): %v", err)
	}
	image, err := dockerImage()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// startDocker is start in containers, and makes sure that none is left.
func startDocker(t *testing.T, spec Spec, linker Linker) *Topology {
	t.Helper()
	spec.Image = needDocker(t)
	began := time.Now()
	top := start(t, spec, linker)
	t.Logf("started after %v in all", time.Since(began).Round(time.Millisecond))
	return top
}

func containerOf(n *Node) string { return n.server.life.(*dockerised).name }

// containers lists the names of all containers of ours, dead ones included.
func containers(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("docker", "ps", "--all", "--filter", "label="+Label, "--format", "{{.Names}}").Output()
	if err != nil {
		t.Fatalf("docker ps: %v", err)
	}
	return strings.Fields(string(out))
}

func mustBeGone(t *testing.T, names ...string) {
	t.Helper()
	here := containers(t)
	for _, name := range names {
		if slices.Contains(here, name) {
			t.Errorf("container %s is left", name)
		}
	}
}

func TestDockerSingle(t *testing.T) {
	top := startDocker(t, Spec{Kind: Single}, nil)
	n := top.Primary()
	if n.Version() == "" || n.Pid() == 0 || !n.Alive() {
		t.Errorf("version %q, process %d, alive %v", n.Version(), n.Pid(), n.Alive())
	}
	if !slices.Contains(containers(t), containerOf(n)) {
		t.Fatalf("%s is not among the containers %q", containerOf(n), containers(t))
	}
	// Nobody but this machine reaches it.
	if got := n.Client().ConfigGet(t.Context(), "bind").Val()["bind"]; got != "127.0.0.1" {
		t.Errorf("bound to %q", got)
	}
	healthy(t, top)

	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.Client().Ping(ctx).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a paused server answers: %v", err)
	}
	if err := n.Resume(); err != nil {
		t.Fatal(err)
	}
	healthy(t, top)
	name := containerOf(n)
	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := n.Kill(); err != nil || n.Alive() {
		t.Errorf("killing a paused server: %v, alive %v", err, n.Alive())
	}
	mustBeGone(t, name)
	if n.Pause() == nil {
		t.Error("a dead server was paused")
	}
}

func TestDockerPromote(t *testing.T) {
	links := &forwarder{}
	top := startDocker(t, Spec{Kind: Replicated}, links)
	ctx := t.Context()
	first, second := top.Nodes()[0], top.Nodes()[1]
	set(t, first, "k", "x")
	if err := top.WaitSync(ctx); err != nil {
		t.Fatal(err)
	}
	// Containers reach each other through links, and a cut is one.
	links.links["n2-n1"].Cut()
	set(t, first, "k", "y")
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := top.Promote(ctx, second); err != nil {
		t.Fatal(err)
	}
	if got := get(t, second, "k"); got != "x" {
		t.Errorf("the new primary has %q", got)
	}
	if err := first.Restart(ctx, RestartOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := top.Follow(ctx, first, second); err != nil {
		t.Fatal(err)
	}
	if err := top.WaitSync(ctx); err != nil {
		t.Fatal(err)
	}
	if got := get(t, first, "k"); got != "x" {
		t.Errorf("the old primary has %q", got)
	}
}

func TestDockerIndependent(t *testing.T) {
	top := startDocker(t, Spec{Kind: Independent, Nodes: 3, Persistent: true}, nil)
	for _, n := range top.Nodes() {
		set(t, n, "k", n.Name)
	}
	n := top.Nodes()[1]
	addr, pid, name := n.Addr, n.Pid(), containerOf(n)
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	if n.Alive() || top.Healthy(t.Context()) == nil {
		t.Error("alive or healthy after being killed")
	}
	mustBeGone(t, name)
	if err := n.Restart(t.Context(), RestartOptions{Persistent: true}); err != nil {
		t.Fatal(err)
	}
	if n.Addr != addr || n.Pid() == pid {
		t.Errorf("restarted as process %d on %s, was %d on %s", n.Pid(), n.Addr, pid, addr)
	}
	for _, n := range top.Nodes() {
		if got := get(t, n, "k"); got != n.Name {
			t.Errorf("%s has %q", n.Name, got)
		}
	}
	healthy(t, top)
	// What is no longer persistent comes back empty.
	if err := n.Restart(t.Context(), RestartOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := get(t, n, "k"); got != "" {
		t.Errorf("after forgetting, %s has %q", n.Name, got)
	}
}

func TestDockerSentinel(t *testing.T) {
	top := startDocker(t, Spec{Kind: Sentinel}, &forwarder{})
	healthy(t, top)
	old := top.Primary()
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	now, err := top.WaitFailover(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	if role, err := now.Role(ctx); now == old || role != "master" {
		t.Errorf("the new primary %s is a %s (%v)", now.Name, role, err)
	}
}

func TestDockerCloseLeavesNothing(t *testing.T) {
	top := startDocker(t, Spec{Kind: Independent, Nodes: 2}, nil)
	var names []string
	for _, n := range top.Nodes() {
		names = append(names, containerOf(n))
	}
	if err := top.Nodes()[1].Pause(); err != nil {
		t.Fatal(err)
	}
	if err := top.Close(); err != nil {
		t.Fatal(err)
	}
	mustBeGone(t, names...)
	for _, n := range top.Nodes() {
		if _, err := os.Stat(n.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("folder %s is left: %v", n.dir, err)
		}
	}
}

// Without a Close, the end of the group removes the containers.
func TestDockerGroupCloseLeavesNothing(t *testing.T) {
	image := needDocker(t)
	g, err := proc.NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	top, err := Start(t.Context(), g, Spec{Kind: Single, Image: image}, nil)
	if err != nil {
		t.Fatal(errors.Join(err, g.Close()))
	}
	name := containerOf(top.Primary())
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	mustBeGone(t, name)
}

func TestDockerKilledCoordinatorLeavesNothing(t *testing.T) {
	image := needDocker(t)
	temp := t.TempDir()
	cmd := exec.Command(os.Args[0], dockerCoordinator, image)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	// The guardian has this pipe too, so its end tells the end of both.
	stderr, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	cmd.Stderr = theirs
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var names []string
	for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != ""; {
		names = append(names, lines.Text())
	}
	here := containers(t)
	if len(names) != 2 || !slices.Contains(here, names[0]) || !slices.Contains(here, names[1]) {
		cmd.Process.Kill()
		said, _ := io.ReadAll(stderr)
		t.Fatalf("the coordinator names containers %q, there are %q\n%s", names, here, said)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	cmd.Wait()
	if err := stderr.SetReadDeadline(killed.Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(stderr)
	if err != nil {
		t.Fatalf("the guardian does not end: %v", err)
	}
	if len(bytes.TrimSpace(said)) > 0 {
		t.Errorf("it says: %s", said)
	}
	t.Logf("all gone %v after the kill", time.Since(killed).Round(time.Millisecond))
	mustBeGone(t, names...)
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("folders are left: %v, %v", left, err)
	}
}

func TestDockerImageMissing(t *testing.T) {
	needDocker(t)
	// Nobody serves images on this port.
	_, err := Start(t.Context(), newGroup(t), Spec{Kind: Single, Image: "127.0.0.1:1/nothing:here"}, nil)
	if !errors.Is(err, ErrNoImage) || !strings.Contains(err.Error(), "127.0.0.1:1/nothing:here") {
		t.Errorf("without the image: %v", err)
	}
}

// What the server says when it cannot start reaches the user.
func TestDockerStartFails(t *testing.T) {
	g := newGroup(t)
	d, err := newDocker(t.Context(), g, needDocker(t))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := g.TempDir("lockstress-test-")
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("fails%d", os.Getpid())
	_, err = d.launch(t.Context(), name, dir, "Ready to accept", "--port", "0", "--no-such-option", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("the error does not carry what the server said: %v", err)
	}
	taken := startDocker(t, Spec{Kind: Single}, nil).Primary().Addr
	_, port, _ := strings.Cut(taken, ":")
	_, err = d.launch(t.Context(), name, dir, "Ready to accept", "--port", port, "--bind", host)
	if !errors.Is(err, errPortTaken) {
		t.Errorf("on a taken port: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = d.launch(ctx, name, dir, "no server says this", "--port", "0", "--unixsocket", dir+"/s")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("never ready: %v", err)
	}
	for _, c := range containers(t) {
		if strings.Contains(c, name) {
			t.Errorf("container %s is left", c)
		}
	}
}

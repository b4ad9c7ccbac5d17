package servers

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

const (
	imageName = "hare/postgres"
	imageTag  = "15"
)

// ownerLabel marks the containers started here with the process that started them.
const ownerLabel = "dev.hare.owner"

var (
	//go:embed image.sh
	imageScript string
	//go:embed container.sh
	containerScript string
)

// dockerReady says which engine answers, after making sure that it has the image.
func dockerReady(ctx context.Context) (string, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return "", fmt.Errorf("no Docker engine: %w", err)
	}
	pinged, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := pool.Client.PingWithContext(pinged); err != nil {
		return "", fmt.Errorf("no Docker engine answers: %w", err)
	}
	if err := ensureImage(ctx, pool); err != nil {
		return "", err
	}
	return "containers of " + imageName + ":" + imageTag, nil
}

// ensureImage makes the image if the engine does not have it.
func ensureImage(ctx context.Context, pool *dockertest.Pool) error {
	_, err := pool.Client.InspectImage(imageName + ":" + imageTag)
	if !errors.Is(err, docker.ErrNoSuchImage) {
		return err
	}
	output, err := exec.CommandContext(ctx, "bash", "-c", imageScript).CombinedOutput()
	if err != nil {
		return fmt.Errorf("no image of PostgreSQL: %w\n%s", err, tail(output))
	}
	return nil
}

// container is a server in a container.
type container struct {
	pool     *dockertest.Pool
	resource *dockertest.Resource // nil before the first start
	options  *dockertest.RunOptions
	data     func(*docker.HostConfig) // gives it a file system for its data
}

func newContainer(ctx context.Context, spec spec) (*container, error) {
	if _, err := dockerReady(ctx); err != nil {
		return nil, err
	}
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, err
	}
	if err := removeOrphans(ctx, pool); err != nil {
		return nil, err
	}
	postgres := []string{"sh", strconv.Itoa(int(spec.life.Seconds())), "-c", "listen_addresses=*"}
	for _, setting := range spec.settings {
		postgres = append(postgres, "-c", setting)
	}
	// A volume is faster than the container's layered file system, and goes with the container.
	directory, data := "/var/lib/postgresql", func(host *docker.HostConfig) {
		host.Mounts = []docker.HostMount{{Type: "volume", Target: "/var/lib/postgresql"}}
	}
	if spec.volatile {
		// The image has no such directory, whose rights the file system would take on.
		directory, data = "/memory", func(host *docker.HostConfig) {
			host.Tmpfs = map[string]string{"/memory": "mode=0777"} // for the user postgres
		}
	}
	environment := []string{"HARE_PASSWORD=" + spec.password, "HARE_DIRECTORY=" + directory}
	if spec.primary != nil {
		environment = append(environment, "HARE_PRIMARY="+spec.primary.host)
	}
	return &container{pool: pool, data: data, options: &dockertest.RunOptions{
		Name:         fmt.Sprintf("hare-%s-%s", spec.name, rand.Text()),
		Repository:   imageName,
		Tag:          imageTag,
		User:         "postgres",
		Env:          environment,
		Entrypoint:   []string{"/bin/sh", "-c", containerScript},
		Cmd:          postgres,
		ExposedPorts: []string{"5432/tcp"},
		PortBindings: map[docker.Port][]docker.PortBinding{
			"5432/tcp": {{HostIP: "127.0.0.1", HostPort: strconv.Itoa(spec.port)}},
		},
		Labels: map[string]string{ownerLabel: owner()},
	}}, nil
}

func (c *container) start(context.Context) error {
	if c.resource != nil {
		return c.pool.Client.StartContainer(c.resource.Container.ID, nil)
	}
	// dockertest's Resource.Expire would ask PostgreSQL to shut down at once; the command of the container ends it in
	// time, whatever has become of this process.
	resource, err := c.pool.RunWithOptions(c.options, c.data)
	if err != nil {
		return fmt.Errorf("docker: %w", errors.Join(err, c.pool.RemoveContainerByName(c.options.Name)))
	}
	c.resource = resource
	return nil
}

func (c *container) stop(ctx context.Context) error { return c.end(ctx, docker.SIGINT) }

func (c *container) kill(ctx context.Context) error { return c.end(ctx, docker.SIGKILL) }

// end sends a signal and waits for the end of the container.
func (c *container) end(ctx context.Context, signal docker.Signal) error {
	id := c.resource.Container.ID
	err := c.pool.Client.KillContainer(docker.KillContainerOptions{ID: id, Signal: signal, Context: ctx})
	if err != nil {
		return err
	}
	_, err = c.pool.Client.WaitContainerWithContext(id, ctx)
	return err
}

// pause tries more than once: where cgroups are of version 1, freezing processes that are busy is a game of chance, which
// runc loses on a busy machine and leaves to its caller to repeat (runc, pull requests 2791 and 4388).
func (c *container) pause(ctx context.Context) (err error) {
	for range 20 {
		if err = c.pool.Client.PauseContainer(c.resource.Container.ID); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
	return err
}

func (c *container) resume(context.Context) error {
	return c.pool.Client.UnpauseContainer(c.resource.Container.ID)
}

func (c *container) running() bool {
	if c.resource == nil {
		return false
	}
	inspected, err := c.pool.Client.InspectContainer(c.resource.Container.ID)
	return err == nil && inspected.State.Running
}

// address is that of the container in Docker's network, which changes when it starts again.
func (c *container) address() (string, int, error) {
	inspected, err := c.pool.Client.InspectContainer(c.resource.Container.ID)
	if err != nil {
		return "", 0, err
	}
	return inspected.NetworkSettings.IPAddress, 5432, nil
}

func (c *container) log() string {
	var output bytes.Buffer
	if c.resource == nil {
		return ""
	}
	err := c.pool.Client.Logs(docker.LogsOptions{
		Container: c.resource.Container.ID, OutputStream: &output, ErrorStream: &output,
		Stdout: true, Stderr: true, Tail: "30",
	})
	if err != nil {
		return err.Error()
	}
	return tail(output.Bytes())
}

func (c *container) remove() error {
	if c.resource == nil {
		return nil
	}
	err := c.pool.Purge(c.resource)
	if gone := new(docker.NoSuchContainer); errors.As(err, &gone) {
		return nil
	}
	return err
}

// owner names this process.
func owner() string {
	host, _ := os.Hostname() // without a name, all processes are of one host, which is as good
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// removeOrphans removes the containers of processes of this host that are no more.
func removeOrphans(ctx context.Context, pool *dockertest.Pool) error {
	containers, err := pool.Client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {ownerLabel}}, Context: ctx,
	})
	if err != nil {
		return err
	}
	ours, _, _ := strings.Cut(owner(), "/")
	for _, c := range containers {
		host, pid, _ := strings.Cut(c.Labels[ownerLabel], "/")
		if number, err := strconv.Atoi(pid); err != nil || host != ours || alive(number) {
			continue
		}
		// Somebody else may be removing it at this moment.
		_ = pool.Client.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true, RemoveVolumes: true})
	}
	return nil
}

// tail is the end of a log.
func tail(log []byte) string {
	const most = 4000
	if len(log) > most {
		log = log[len(log)-most:]
	}
	return strings.TrimSpace(string(log))
}

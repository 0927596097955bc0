package fake

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bakeoff/base/suite"
)

// Dir is where the fake of a test keeps its state. A controller that the test kills is another
// process, which reads the folder from an environment variable.
func Dir(t *testing.T) string {
	const name = "DRIVER_TEST_FAKE"
	if dir := os.Getenv(name); dir != "" {
		return dir
	}
	dir := t.TempDir()
	t.Setenv(name, dir)
	return dir
}

// Root creates a root for guests, with a static busybox and the agent, and a
// disk that stands for it: a file that names the root. It returns the disk and
// the agent. It skips without root and with -short.
func Root(t *testing.T) (disk, agent string) {
	t.Helper()
	if testing.Short() {
		t.Skip("makes roots: not with -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: what runs inside a fake guest runs below another root directory")
	}
	box, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox for a root: apt-get install busybox-static")
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	script := `mkdir -p "$1/bin" "$1/dev" "$1/etc" "$1/tmp" "$1/root" "$1/.bakeoff/scratch" && cp "$0" "$1/bin/busybox" &&
		for n in $("$0" --list); do [ $n = busybox ] || echo $n; done &&
		cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom "$1/dev"`
	out, err := exec.Command("sh", "-c", script, box, root).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range strings.Fields(string(out)) {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	agent = filepath.Join(root, ".bakeoff/agent")
	if err := suite.BuildAgent(agent); err != nil {
		t.Fatal(err)
	}
	// The host has it too, under the name that the driver uses.
	host := filepath.Join(dir, "bakeoff-agent")
	if err := os.Link(agent, host); err != nil {
		t.Fatal(err)
	}
	disk = filepath.Join(dir, "disk.raw")
	if err := os.WriteFile(disk, []byte(rootMark+root+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return disk, host
}

// rootMark begins a disk that stands for a root.
const rootMark = "a disk with the root of "

// Install creates the root of a guest from its disk, below the fake's
// directory: its own directories, and files shared by hard links, which nobody
// writes to.
func (h *Host) Install(disk, name string) (root string, err error) {
	text, err := os.ReadFile(disk)
	if err != nil {
		return "", err
	}
	from, ok := strings.CutPrefix(strings.TrimSpace(string(text)), rootMark)
	if !ok {
		return "", errors.New(disk + " is not bootable")
	}
	root = filepath.Join(h.Dir, "guests", name)
	if err := os.RemoveAll(root); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return "", err
	}
	return root, Here(context.Background(), "cp", "-al", from, root)
}

// Serve is a guest whose agent answers on a Unix socket, until ctx ends and nothing runs in
// the guest any more. greet, if not nil, handles the first message of a connection.
func (c *Call) Serve(ctx context.Context, socket string, p Place, greet func(net.Conn, *bufio.Reader) error) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var inside sync.WaitGroup
	defer inside.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return ctx.Err()
		}
		inside.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			in := bufio.NewReader(conn)
			if greet != nil && greet(conn, in) != nil {
				return
			}
			inner := *c
			inner.Ctx, inner.Stdin, inner.Stdout, inner.Stderr = ctx, in, conn, nil
			inner.Inside(p, "/.bakeoff/agent", "serve", "-")
		})
	}
}

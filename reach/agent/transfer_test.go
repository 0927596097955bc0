package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

func unblock(r io.Reader) ([]byte, error) {
	return io.ReadAll(&unblocked{r: bufio.NewReader(r)})
}

func TestBlocks(t *testing.T) {
	for _, n := range []int{0, 1, 64<<10 - 4, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300000} {
		want := bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n]
		for name, src := range map[string]io.Reader{"whole": bytes.NewReader(want),
			"bits": iotest.HalfReader(bytes.NewReader(want))} {
			sent, err := io.ReadAll(Blocks(src))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := unblock(bytes.NewReader(sent)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes came back as %d, %v", name, n, len(got), err)
			}
			// Broken off anywhere, it is not taken for the whole.
			for _, cut := range []int{0, 1, 3, 4, len(sent) / 2, len(sent) - 1} {
				if cut < len(sent) {
					if _, err := unblock(bytes.NewReader(sent[:cut])); err == nil {
						t.Errorf("%d of %d bytes were taken for all of it", cut, len(sent))
					}
				}
			}
		}
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(Blocks(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)))); !errors.Is(err,
		broken) {
		t.Errorf("the source's error became %v", err)
	}
}

func FuzzUnblocked(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x03abc\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xffabc"))
	f.Add([]byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := unblock(bytes.NewReader(b)); err == nil && len(got)+4 > len(b) {
			t.Errorf("%d bytes out of %d", len(got), len(b))
		}
	})
}

func TestPutGet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	var out, errs bytes.Buffer
	if code := runPut(command.Call{Args: []string{"--mode", "0600", file}, Stdin: Blocks(strings.NewReader("hello")),
		Stderr: &errs}); code != wire.ExitOK {
		t.Fatalf("put: %d %s", code, errs.String())
	}
	if s, err := os.Stat(file); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", s.Mode(), err)
	}
	if code := runPut(command.Call{Args: []string{file}, Stdin: strings.NewReader("\x00\x00\x00\x09half"),
		Stderr: &errs}); code == wire.ExitOK {
		t.Error("half a file was put")
	}
	if code := runGet(command.Call{Args: []string{file}, Stdout: &out, Stderr: &errs}); code != wire.ExitOK ||
		out.String() != "hello" {
		t.Errorf("get: %d %q %s", code, out.String(), errs.String())
	}
	code := runGet(command.Call{Args: []string{file + "-not"}, Stdout: &out, Stderr: &errs})
	if code != wire.ExitNotFound {
		t.Errorf("get of what is not there: %d", code)
	}
}

func TestDialThrough(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	through := func(addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return DialThrough(ctx, func(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
			var errs bytes.Buffer
			if code := runDial(command.Call{Args: []string{"tcp", addr}, Stdin: stdin, Stdout: stdout,
				Stderr: &errs}); code != wire.ExitOK {
				return errors.New(errs.String())
			}
			return nil
		})
	}
	c, err := through(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	for _, want := range []string{"one", "another"} {
		if _, err := c.Write([]byte(want)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Errorf("echo %q, %v", got, err)
		}
	}
	c.Close()
	l.Close()
	if _, err := through(l.Addr().String()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no listener: %v", err)
	}
}

package guests

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"bakeoff/provision/vm/manifest"
)

// exec -t gives a program in a guest a terminal with the size of the one outside, also when that
// changes: a shell has job control, and ^C ends a program in it and not the shell.
func TestExecInTerminal(t *testing.T) {
	h := networkHome(t)
	dir := box(t, h, "box", sleeps)
	names := append([]string{"m"}, manifest.Docker.Drivers()...)
	for _, name := range names[1:] {
		needsDriver(t, name)
		do(t, h, "run", dir, "--name", name, "--driver", name, "--memory", "64MiB")
	}
	do(t, h, "run", dir, "--name", "m", "--memory", "128MiB")
	if _, errs, code := h.Bakeoff(t, limit, "vm", "exec", "-t", "m", "--", "/bin/busybox", "true"); code != 2 ||
		!strings.Contains(errs, "needs a terminal") {
		t.Errorf("without a terminal: exit code %d, %s", code, errs)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			c := h.Command("vm", "exec", "-t", name, "--", "/bin/busybox", "sh")
			outside, err := pty.StartWithSize(c, &pty.Winsize{Rows: 30, Cols: 100})
			if err != nil {
				t.Fatal(err)
			}
			defer outside.Close()
			s := newSession(t, outside)
			s.types("b=/bin/busybox; $b tty; $b stty size\n", "\n/dev/pts/", "\n30 100")
			if err := pty.Setsize(outside, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
				t.Fatal(err)
			}
			s.types("until test \"$($b stty size)\" = '40 120'; do :; done; echo now 40 by $((60+60))\n", "\nnow 40 by 120")
			s.types("$b sleep 1000000 & jobs; echo jobs $((1+1))\n", "Running", "\njobs 2") // is left behind
			// The shell has given the terminal to what prints this.
			s.types("$b sh -c 'echo sleeps $((2+1)); exec /bin/busybox sleep 1000000'\n", "\nsleeps 3")
			s.types("\x03", "^C")
			s.types("echo $((2+2)) alive\n", "\n4 alive")
			s.types("exit 7\n")
			for range s.read { // the rest
			}
			err = c.Wait()
			if code := c.ProcessState.ExitCode(); code != 7 {
				t.Errorf("exit code %d, %v: %s", code, err, s.got.String())
			}
		})
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}

// run --console gives the program of a container the terminal of the command, whose size it follows,
// and the command ends with the program. ^] leaves the program alone. A program that ends at once has
// said all of it, also into a pipe.
func TestConsoleOfContainer(t *testing.T) {
	h := networkHome(t)
	dir := box(t, h, "box", sleeps)
	for _, name := range manifest.Docker.Drivers() {
		t.Run(name, func(t *testing.T) {
			needsDriver(t, name)
			run := []string{"vm", "run", dir, "--driver", name, "--memory", "64MiB", "--console", "--rm", "--name", name, "--"}
			for range 3 {
				out, errs, code := h.Bakeoff(t, limit, append(run, "/bin/busybox", "echo", "hello")...)
				if uuid, said, _ := strings.Cut(out, "\n"); code != 0 || len(uuid) != 36 || said != "hello\n" {
					t.Errorf("exit code %d, %q, %s", code, out, errs)
				}
			}
			// The command ends as the program does, also if the guest stays.
			for line, want := range map[string]int{"exit 7": 7, "kill -9 $$": 137} {
				if _, errs, code := h.Bakeoff(t, limit, append(run, "/bin/busybox", "sh", "-c", line)...); code != want {
					t.Errorf("%s: exit code %d, %s", line, code, errs)
				}
			}
			keep := []string{"vm", "run", dir, "--driver", name, "--memory", "64MiB", "--console", "--name", "kept", "--"}
			if _, errs, code := h.Bakeoff(t, limit, append(keep, "/bin/busybox", "false")...); code != 1 || errs != "" {
				t.Errorf("exit code %d, %s", code, errs)
			}
			do(t, h, "delete", "kept")
			if _, errs, code := h.Bakeoff(t, limit, append(run, "/nope")...); code != 1 || !strings.Contains(errs, "/nope") {
				t.Errorf("a missing program: exit code %d, %s", code, errs)
			}
			start := func(args ...string) (*session, *os.File, func()) {
				c := h.Command(args...)
				outside, err := pty.StartWithSize(c, &pty.Winsize{Rows: 30, Cols: 100})
				if err != nil {
					t.Fatal(err)
				}
				s := newSession(t, outside)
				return s, outside, func() {
					defer outside.Close()
					for range s.read { // the rest
					}
					if err := c.Wait(); err != nil {
						t.Errorf("%q: %v: %s", args, err, s.got.String())
					}
				}
			}
			s, outside, end := start(append(run, "/bin/busybox", "sh")...)
			s.types("b=/bin/busybox; $b tty; echo $TERM\n", "\n/dev/pts/", "\nxterm")
			if err := pty.Setsize(outside, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
				t.Fatal(err)
			}
			s.types("until test \"$($b stty size)\" = '40 120'; do :; done; echo now 40 by $((60+60))\n", "\nnow 40 by 120")
			s.types("\x1d") // ^]
			end()
			s, _, end = start("vm", "console", name)
			s.types("echo size $($b stty size)\n", "\nsize 30 100")
			s.types("exit\n")
			end()
			for late := time.Now().Add(time.Minute); len(guests(t, h)) > 0; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(late) {
					t.Fatalf("the program has ended, and the guest is left: %+v", guests(t, h))
				}
			}
		})
	}
	// It shuts down as another one: the signal is for the program, and not for what has its terminal.
	do(t, h, "create", "-f", file(t, "a.json", `{"brand": "docker", "alias": "a", "ram": 64, "tty": true, "image": "`+
		tiny(t, h)+`"}`))
	for late := time.Now().Add(time.Minute); !strings.Contains(do(t, h, "logs", "a"), "waits"); { // for the signal
		if time.Now().After(late) {
			t.Fatalf("the program did not start: %s", do(t, h, "logs", "a"))
		}
	}
	do(t, h, "stop", "a")
	if got := do(t, h, "logs", "a"); !strings.Contains(got, "ends: terminated") {
		t.Errorf("the program was killed: %q", got)
	}
	refused(t, h, 1, "guests of brand kvm do not have this property", "create", "-f",
		file(t, "b.json", `{"brand": "kvm", "image": "a", "tty": true}`))
	removeGuests(t, h)
	leavesNothing(t, h)
}

// session is a terminal at which a test types.
type session struct {
	t    *testing.T
	keys io.Writer
	read <-chan []byte // closed at the end
	got  bytes.Buffer
}

// newSession reads from a terminal until its programs have ended.
func newSession(t *testing.T, terminal io.ReadWriter) *session {
	read := make(chan []byte)
	go func() {
		defer close(read)
		for {
			buf := make([]byte, 4096)
			n, err := terminal.Read(buf)
			if err != nil {
				return
			}
			select {
			case read <- buf[:n]:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return &session{t: t, keys: terminal, read: read}
}

// types types keys and waits for what the terminal shows then.
func (s *session) types(keys string, shows ...string) {
	s.t.Helper()
	s.got.Reset()
	if _, err := io.WriteString(s.keys, keys); err != nil {
		s.t.Fatal(err)
	}
	for late := time.After(3 * time.Minute); len(shows) > 0; {
		select {
		case b, ok := <-s.read:
			if !ok {
				s.t.Fatalf("after %q, the terminal shows %q and ends, without %q", keys, s.got.String(), shows)
			}
			s.got.Write(b)
		case <-late:
			s.t.Fatalf("after %q, the terminal shows %q and not %q", keys, s.got.String(), shows)
		}
		text := strings.ReplaceAll(s.got.String(), "\r", "")
		for len(shows) > 0 && strings.Contains(text, shows[0]) {
			shows = shows[1:]
		}
	}
}

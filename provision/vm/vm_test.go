package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn/local"
)

func newStore(t *testing.T) *Store { return &Store{State: t.TempDir(), Host: local.Conn{}} }

func create(t *testing.T, s *Store, alias string) *Guest {
	t.Helper()
	m := manifest.Guest{Brand: manifest.MicroVM, Alias: alias, RAM: 64, Kernel: "/boot/vmlinuz"}
	manifest.Complete(&m)
	g, err := s.Create(t.Context(), m, Boot{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A guest is found by its UUID, by the beginning of one and by its alias, and is gone with
// its lease after Delete.
func TestCreateFindDelete(t *testing.T) {
	s := newStore(t)
	a, b := create(t, s, "web"), create(t, s, "db")
	for _, name := range []string{a.UUID, a.UUID[:13], "web"} {
		if g, err := s.Find(name); err != nil || g.UUID != a.UUID || g.State != Configured {
			t.Errorf("%s: %v, %v", name, g, err)
		}
	}
	create(t, s, "web")
	if _, err := s.Find("web"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "names 2 guests") {
		t.Errorf("an alias of two guests: %v", err)
	}
	for _, name := range []string{"", "nobody", "..", "../../etc", strings.Repeat("a", 36)} {
		if _, err := s.Find(name); !fault.Is(err, fault.NotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	leases, err := s.leases().All(t.Context())
	if err != nil || len(leases) != 3 || !leases[0].IsKept() {
		t.Errorf("%+v, %v", leases, err)
	}
	if err := b.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	leases, err = s.leases().All(t.Context())
	if err != nil || len(leases) != 2 {
		t.Errorf("after Delete: %d leases, %v", len(leases), err)
	}
	if _, err := s.Find("db"); !fault.Is(err, fault.NotFound) {
		t.Errorf("after Delete: %v", err)
	}
}

// A create that fails, or is killed, leaves nothing.
func TestCreateLeavesNothing(t *testing.T) {
	s := newStore(t)
	_, err := s.Create(t.Context(), manifest.Guest{Brand: manifest.KVM}, Boot{}, func(dir string) error {
		if all, lerr := s.List(); lerr != nil || len(all) != 0 {
			t.Errorf("a guest in the making is listed: %v, %v", all, lerr)
		}
		if serr := s.Sweep(t.Context()); serr != nil {
			t.Error(serr)
		}
		if _, serr := os.Stat(dir); serr != nil {
			t.Errorf("Sweep removed what a living command makes: %v", serr)
		}
		return errors.New("the disk is full")
	})
	if err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got %v", err)
	}
	checkEmpty(t, s)
	// What SIGKILL leaves: the folder, the lease, and a lock that nobody holds.
	made := filepath.Join(s.Dir(), beingMade+NewUUID())
	if err := os.Mkdir(made, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	checkEmpty(t, s)
}

func checkEmpty(t *testing.T, s *Store) {
	t.Helper()
	names, err := s.names()
	leases, lerr := s.leases().All(context.Background())
	if err != nil || lerr != nil || len(names)+len(leases) > 0 {
		t.Errorf("left %v and %v (%v, %v)", names, leases, err, lerr)
	}
}

// Two creates with one UUID at the same moment make one guest.
func TestTwoCreates(t *testing.T) {
	s := newStore(t)
	m := manifest.Guest{UUID: NewUUID(), Brand: manifest.KVM}
	errs := make(chan error)
	for range 8 {
		go func() { _, err := s.Create(context.Background(), m, Boot{}, nil); errs <- err }()
	}
	made := 0
	for range 8 {
		if err := <-errs; err == nil {
			made++
		} else if !fault.Is(err, fault.Invalid) {
			t.Error(err)
		}
	}
	if all, err := s.List(); made != 1 || len(all) != 1 || err != nil {
		t.Errorf("made %d, %d are listed, %v", made, len(all), err)
	}
}

// Who gives up does not wait for the supervisor of a guest that runs.
func TestEndedGivesUp(t *testing.T) {
	g := create(t, newStore(t), "x")
	held, err := lock.Try(g.Path(fileLife))
	if err == nil {
		err = writeTransition(g.Path(fileJournal), Transition{State: Running, PID: 7})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := g.ended(ctx); err != nil || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
	if err := writeTransition(g.Path(fileJournal), Transition{State: Failed, Why: "it crashed"}); err != nil {
		t.Fatal(err)
	}
	if err := g.ended(ctx); err == nil || !strings.Contains(err.Error(), "it crashed") {
		t.Error(err)
	}
}

// A guest whose supervisor was killed is not shown as running.
func TestKilledSupervisor(t *testing.T) {
	s := newStore(t)
	g := create(t, s, "x")
	held, err := lock.Try(g.Path(fileLife))
	if err != nil {
		t.Fatal(err)
	}
	if err := writeTransition(g.Path(fileJournal), Transition{State: Running, PID: 7}); err != nil {
		t.Fatal(err)
	}
	if err := g.refresh(); err != nil || g.State != Running || g.Supervisor != os.Getpid() || g.PID != 7 {
		t.Errorf("held: %+v, %v", g.Status, err)
	}
	held.Release()
	if err := g.refresh(); err != nil || g.State != Failed || !strings.Contains(g.Why, "killed") || g.PID != 0 {
		t.Errorf("killed: %+v, %v", g.Status, err)
	}
	// A line that a kill tore does not count.
	f, err := os.OpenFile(g.Path(fileJournal), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"state":"stop`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := g.refresh(); err != nil || g.State != Failed {
		t.Errorf("torn: %+v, %v", g.Status, err)
	}
	if err := writeTransition(g.Path(fileJournal), Transition{State: Stopped}); err != nil {
		t.Fatal(err)
	}
	if lines, err := g.History(); err != nil || len(lines) != 3 || lines[2].State != Stopped {
		t.Errorf("%+v, %v", lines, err)
	}
}

func TestParsePort(t *testing.T) {
	for text, want := range map[string]string{"80": "127.0.0.1:0:80", "8080:80": "127.0.0.1:8080:80",
		"0.0.0.0:8080:80/tcp": "0.0.0.0:8080:80", "[::1]:8080:80": "[::1]:8080:80", ":80": "127.0.0.1:0:80"} {
		if p, err := ParsePort(text); err != nil || p.String() != want {
			t.Errorf("%s: %s, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "0", "x", "1:2:3:4", "8080:80/udp", "70000:80", "localhost:1:2",
		"8080:", "fe80::1%eth0:1:2"} {
		if p, err := ParsePort(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %s, %v", text, p, err)
		}
	}
}

func TestParseShare(t *testing.T) {
	if s, err := ParseShare("/srv/a:b:/data:ro"); err != nil || s != (Share{"/srv/a:b", "/data", true}) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, text := range []string{"", "/data", "/srv:data", "/srv:/", "/srv:/a/../b", ":/data"} {
		if s, err := ParseShare(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0.0.0.0:8080:80")
	f.Add("/srv:/data:ro")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePort(text); err == nil {
			if again, err := ParsePort(p.String()); err != nil || again != p {
				t.Errorf("%q: %v is not %v, %v", text, again, p, err)
			}
		}
		if s, err := ParseShare(text); err == nil && (s.From == "" || !strings.HasPrefix(s.To, "/")) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

func TestRotate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	if err := rotate(name, 4); err != nil {
		t.Errorf("without a log: %v", err)
	}
	if err := os.WriteFile(name, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rotate(name, 6), rotate(name, 4), rotate(name, 4)); err != nil {
		t.Fatal(err)
	}
	old, _ := os.ReadFile(name + ".1")
	now, _ := os.ReadFile(name)
	if string(old) != "12345" || len(now) != 0 {
		t.Errorf("%q and %q", old, now)
	}
}

// The answer to a request is written when answer returns, because the supervisor may end then.
func TestAnswersBeforeItEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ctl")
	l, err := listenAt(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := make(chan error)
	go serveRequests(l, func(r request, answer func(error)) {
		answer(errors.New("no " + r.Do))
		var got reply
		err := json.NewDecoder(c).Decode(&got)
		if err == nil && got.Error != "no stop" {
			err = fmt.Errorf("the answer is %+v", got)
		}
		read <- err
	})
	if err := json.NewEncoder(c).Encode(request{Do: "stop"}); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

package database

import (
	"bakeoff/measure/tool"

	"context"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

func defaults() param.Values { return param.Defaults(tool.DatabaseParams()) }

// What makes a transaction durable is written down, and a value cannot end
// its line.
func TestSettings(t *testing.T) {
	p := defaults()
	p["wal-level"], p["fsync"], p["synchronous-commit"] = "minimal", "off", "it's"
	text := settings(p, "/s")
	for _, want := range []string{"fsync = 'off'\n", "wal_level = 'minimal'\n", "max_wal_senders = '0'\n",
		"listen_addresses = ''\n",
		"unix_socket_directories = '/s'\n", "shared_buffers = '128MB'\n", "synchronous_commit = 'it''s'\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Settings that differ make another server, and the path of a socket has an
// end.
func TestOneServerForEachSettings(t *testing.T) {
	other := defaults()
	other["fsync"] = "off"
	a, errA := New(local.Conn{}, defaults(), "/bin", "/data", "/s", "0")
	b, errB := New(local.Conn{}, other, "/bin", "/data", "/s", "0")
	if errA != nil || errB != nil || a.Socket() == b.Socket() || a.dir == b.dir {
		t.Errorf("%v, %v: %s and %s", errA, errB, a.Socket(), b.Socket())
	}
	c, errC := New(local.Conn{}, defaults(), "/bin", "/data/cms", "/s", "0")
	if errC != nil || a.Socket() == c.Socket() {
		t.Errorf("two servers with the same settings, %v: %s and %s", errC, a.Socket(), c.Socket())
	}
	if _, err := New(local.Conn{}, defaults(), "/bin", "/data", "/"+strings.Repeat("x", 100), "0"); !fault.Is(err,
		fault.Lab) {
		t.Errorf("a socket of more than a hundred characters: %v", err)
	}
}

// mute is a machine where every program ends well and says nothing.
type mute struct{ local.Conn }

func (mute) Exec(context.Context, conn.Cmd) (conn.Exit, error) { return conn.Exit{}, nil }

// A server that does not tell its settings is not taken for one that has
// them, and programs that are not there are told of.
func TestWhatIsNotAServer(t *testing.T) {
	s, err := New(mute{}, defaults(), "/bin", "/data", "/s", "1000")
	if err != nil {
		t.Fatal(err)
	}
	if facts, err := s.Start(t.Context()); !fault.Is(err, fault.Lab) || facts != nil {
		t.Errorf("settings %v, %v", facts, err)
	}
	dir := t.TempDir()
	s, err = New(local.Conn{}, defaults(), dir, dir, dir, "1000")
	if err != nil {
		t.Skip(err)
	}
	if _, err := s.Start(t.Context()); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "initdb is missing") {
		t.Errorf("without PostgreSQL's programs: %v", err)
	}
}

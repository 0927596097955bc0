//go:build linux || netbsd || freebsd

package guestinit

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/agent/serve"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/wire"
)

// fakeSystem records what init asks of a kernel. fail is the call that fails.
type fakeSystem struct {
	calls    []string
	fail     string
	cards    []net.Interface
	late     int // how often the cards are asked for before they are there
	settings map[string][]byte
	rebooted chan struct{}
}

var errRefused = errors.New("the kernel refused")

func (f *fakeSystem) call(format string, args ...any) error {
	c := fmt.Sprintf(format, args...)
	f.calls = append(f.calls, c)
	if f.fail != "" && strings.HasPrefix(c, f.fail) {
		return errRefused
	}
	return nil
}

func (f *fakeSystem) Writable() error           { return f.call("writable") }
func (f *fakeSystem) Devices() error            { return f.call("devices") }
func (f *fakeSystem) Console() error            { return f.call("console") }
func (f *fakeSystem) MakeDir(path string) error { return f.call("mkdir %s", path) }

func (f *fakeSystem) LinkAgent(path string) error { return f.call("agent %s", path) }
func (f *fakeSystem) Hostname(s string) error     { return f.call("hostname %s", s) }
func (f *fakeSystem) Tmpfs(at string, size unit.Bytes, mode uint32) error {
	return f.call("tmpfs %s %d %o", at, int64(size), mode)
}
func (f *fakeSystem) Address(name string, a netip.Prefix) error {
	return f.call("address %s %v", name, a)
}
func (f *fakeSystem) Interfaces() ([]net.Interface, error) {
	if f.late > 0 {
		f.late--
		return nil, nil
	}
	return f.cards, nil
}
func (f *fakeSystem) Setting(name string) ([]byte, error) {
	if v, ok := f.settings[name]; ok {
		return v, nil
	}
	return nil, os.ErrNotExist
}
func (f *fakeSystem) Set(name string, value []byte) error {
	return f.call("set %s %s", name, hex.EncodeToString(value))
}
func (f *fakeSystem) Reboot() error {
	close(f.rebooted)
	return nil
}

var (
	vioif0 = net.Interface{Name: "vioif0", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	vioif1 = net.Interface{Name: "vioif1", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2}}
	lo0    = net.Interface{Name: "lo0", Flags: net.FlagLoopback}
)

// fakeGuest is a NetBSD guest with two network cards.
func fakeGuest() (*fakeSystem, guestInit) {
	f := &fakeSystem{cards: []net.Interface{lo0, vioif0, vioif1}, rebooted: make(chan struct{}),
		settings: map[string][]byte{"kern.maxfiles": {0, 4, 0, 0}, "kern.domainname": []byte("a\x00"),
			"net.inet.ip.forwarding": {0, 0, 0, 0}}}
	return f, guestInit{name: "netbsd", sys: f, wait: 10 * time.Second}
}

func TestGuestIsSetUp(t *testing.T) {
	f, g := fakeGuest()
	f.late = 2
	err := g.settle(wire.InitConfig{Schema: wire.InitSchema, Hostname: "guest",
		Volumes: []wire.InitVolume{{Path: "/data", Type: "tmpfs", Size: 64 * unit.MiB}, {Path: "/more", Type: "tmpfs"}},
		Network: &wire.InitNetwork{MAC: "02:00:00:00:00:02", Addr: netip.MustParsePrefix("198.18.0.7/24")},
		Sysctl:  []wire.InitSetting{{Name: "kern.maxfiles", Value: "4096"}, {Name: "kern.domainname", Value: "x.y"}}})
	want := []string{"hostname guest", "mkdir /data", "tmpfs /data 67108864 755", "mkdir /more", "tmpfs /more 0 755",
		"address vioif1 198.18.0.7/24", "set kern.maxfiles 00100000", "set kern.domainname 782e7900"}
	if err != nil || !slices.Equal(f.calls, want) {
		t.Errorf("%v\n got %q\nwant %q", err, f.calls, want)
	}
}

// What a guest cannot give is refused before anything was changed; what the
// kernel refuses names the setting.
func TestGuestRefuses(t *testing.T) {
	addr := netip.MustParsePrefix("198.18.0.7/24")
	for name, tt := range map[string]struct {
		fail   string
		config wire.InitConfig
		kind   fault.Kind // 0 is any
		want   string
		calls  int
	}{
		"a disk": {"", wire.InitConfig{Hostname: "x", Volumes: []wire.InitVolume{{Path: "/data", Type: "ext4"}}},
			fault.Unsupported, "volume /data", 0},
		"a volume that is not mounted": {"tmpfs", wire.InitConfig{Volumes: []wire.InitVolume{{Path: "/d", Type: "tmpfs"}}},
			0, "volume /d: the kernel refused", 2},
		"an address that is not taken": {"address", wire.InitConfig{Network: &wire.InitNetwork{MAC: "02:00:00:00:00:01",
			Addr: addr}}, 0, "interface vioif0: address 198.18.0.7/24: the kernel refused", 1},
		"two cards and no address of hardware": {"", wire.InitConfig{Network: &wire.InitNetwork{Addr: addr}},
			fault.Invalid, "vioif0 vioif1", 0},
		"an invalid address of hardware": {"", wire.InitConfig{Network: &wire.InitNetwork{MAC: "x", Addr: addr}}, 0,
			"invalid MAC address", 0},
		"a setting that does not exist": {"", wire.InitConfig{Sysctl: []wire.InitSetting{{Name: "kern.no", Value: "1"}}}, 0,
			"setting kern.no = 1: file does not exist", 0},
		"a value of the wrong type": {"", wire.InitConfig{Sysctl: []wire.InitSetting{{Name: "kern.maxfiles",
			Value: "many"}}}, 0, `setting kern.maxfiles = many: "many" is not a number`, 0},
		"a name that is not taken": {"hostname", wire.InitConfig{Hostname: "x"}, 0, "host name: the kernel refused", 1},
	} {
		f, g := fakeGuest()
		f.fail = tt.fail
		err := g.settle(tt.config)
		if err == nil || !strings.Contains(err.Error(), tt.want) || len(f.calls) != tt.calls ||
			(tt.kind != 0 && !fault.Is(err, tt.kind)) {
			t.Errorf("%s: %v after %q; want %q after %d calls", name, err, f.calls, tt.want, tt.calls)
		}
	}
	f, g := fakeGuest()
	g.wait = 0
	if _, err := g.card("02:00:00:00:00:09"); err == nil || !strings.Contains(err.Error(), "02:00:00:00:00:09") {
		t.Errorf("a card that never appears: %v", err)
	}
	f.cards = []net.Interface{lo0, vioif0}
	if name, err := g.card(""); err != nil || name != "vioif0" {
		t.Errorf("the only card is %q, %v", name, err)
	}
}

// Init brings a guest up from its file, dials the host, and does for it what
// only the host knows: volumes, addresses, settings and the end.
func TestGuestBoots(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, g := fakeGuest()
	f.cards = []net.Interface{lo0, vioif0}
	path := filepath.Join(t.TempDir(), "bakeoff.json")
	text, err := json.Marshal(wire.InitConfig{Schema: wire.InitSchema, Port: "dial:" + l.Addr().String(),
		Network: &wire.InitNetwork{Addr: netip.MustParsePrefix("10.0.2.15/24")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	in := &initProcess{functions: g.functions()}
	if err := bringUp(t, g, in, path); err != nil {
		t.Fatal(err)
	}
	want := []string{"devices", "console", "writable", "mkdir " + wire.GuestScratch, "mkdir /tmp", "mkdir /var/tmp",
		"agent " + wire.GuestAgent, "address lo0 127.0.0.1/8", "address vioif0 10.0.2.15/24"}
	if !slices.Equal(f.calls, want) {
		t.Errorf("it asked for %q, want %q", f.calls, want)
	}
	in.report.Kernel = serve.BootReport(0).Kernel
	served := make(chan error, 1)
	go func() { served <- in.answerOnce(serve.Options{Functions: in.functions}) }()
	c := hostOf(t, l)
	if out, err := conn.Output(t.Context(), c, "echo", "here"); err != nil || string(out) != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
	if err := c.Call(t.Context(), "setup", wire.InitConfig{Schema: wire.InitSchema,
		Volumes: []wire.InitVolume{{Path: "/data", Type: "tmpfs"}}}, nil); err != nil {
		t.Error(err)
	}
	if got := f.calls[len(want):]; !slices.Equal(got, []string{"mkdir /data", "tmpfs /data 0 755"}) {
		t.Errorf("setup asked for %q", got)
	}
	for _, bad := range []any{wire.InitConfig{}, "text", wire.InitConfig{Schema: wire.InitSchema, Root: "root"}} {
		if err := c.Call(t.Context(), "setup", bad, nil); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
			t.Errorf("setup with %+v: %v", bad, err)
		}
	}
	if err := c.Call(t.Context(), "poweroff", nil, nil); err != nil {
		t.Error(err)
	}
	select {
	case <-f.rebooted:
	case <-time.After(time.Minute):
		t.Error("the guest was not restarted")
	}
	c.Close()
	<-served
}

// hostOf is the host that the next guest dials at l.
func hostOf(t *testing.T, l net.Listener) *channel.Conn {
	t.Helper()
	if d, ok := l.(*net.TCPListener); ok {
		d.SetDeadline(time.Now().Add(time.Minute))
	}
	port, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := channel.Open(ctx, port, channel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// bringUp is guestInit.bringUp without a reaper, which would take the children
// of other tests.
func bringUp(t *testing.T, g guestInit, in *initProcess, path string) error {
	t.Helper()
	for name := range serve.Environ {
		t.Setenv(name, os.Getenv(name)) // restores it at the end
	}
	return g.bringUp(in, path, func() *reaper { return nil })
}

// A guest that could not be set up answers all the same, says why, and runs no
// programs.
func TestGuestThatFailsSaysWhy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config := filepath.Join(t.TempDir(), "bakeoff.json")
	write := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		fail, text, want string
		answers          bool
	}{
		{"", `{"schema":"bakeoff/init/v1","port":"dial:` + l.Addr().String() + `","root":"x"}`, "mounts the root itself",
			true},
		{"address lo0", `{"schema":"bakeoff/init/v1","port":"dial:` + l.Addr().String() + `"}`, "interface lo0", true},
		{"writable", `{}`, "remount the root for writing: the kernel refused", false},
		{"devices", `{}`, "devices: the kernel refused", false},
		{"mkdir /tmp", `{}`, "the kernel refused", false},
		{"", `{}`, "schema", false},
		{"", `{`, "unexpected end", false},
		{"", `{"schema":"bakeoff/init/v1"}`, "port is required", false},
		{"", `{"schema":"bakeoff/init/v1","port":"dial:nowhere"}`, "invalid address", false},
	} {
		write(tt.text)
		f, g := fakeGuest()
		f.fail = tt.fail
		in := &initProcess{}
		err := bringUp(t, g, in, config)
		if err == nil || !strings.Contains(err.Error(), tt.want) || (in.open != nil) != tt.answers ||
			(in.config.Port != "") != tt.answers {
			t.Errorf("%s %s: %v, port %q; want %q", tt.fail, tt.text, err, in.config.Port, tt.want)
			continue
		}
		if !tt.answers {
			continue
		}
		in.report.Error = err.Error()
		go in.answerOnce(serve.Options{Launch: in.launcher()})
		c := hostOf(t, l)
		if _, err := c.Exec(t.Context(), conn.Command("true")); !fault.Is(err, fault.Subject) ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("a program in it: %v", err)
		}
		c.Close()
	}
}

// The functions are offered by the agents that guests of these systems run.
func TestGuestFunctionsNeedASchema(t *testing.T) {
	_, g := fakeGuest()
	for _, params := range []string{"", "[]", `{"schema":"bakeoff/init/v2"}`} {
		if _, err := g.functions()["setup"](context.Background(), json.RawMessage(params)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", params, err)
		}
	}
}

func TestEncodeSetting(t *testing.T) {
	for _, tt := range []struct {
		now   string
		value string
		want  string // "" is an error
	}{
		{"\x00\x04\x00\x00", "4096", "\x00\x10\x00\x00"},
		{"\x00\x04\x00\x00", "-1", "\xff\xff\xff\xff"},
		{"\x00\x04\x00\x00", "0xffffffff", "\xff\xff\xff\xff"},
		{"\x00\x04\x00\x00", "4294967296", ""},
		{"\x00\x04\x00\x00", "abc", ""},
		{"ABC\x00", "5", "\x05\x00\x00\x00"}, // a number that looks like a text
		{"ABC\x00", "longer", "longer\x00"},
		{"bakeoff\x00", "7", "\x07\x00\x00\x00\x00\x00\x00\x00"},
		{"some name\x00", "7", "7\x00"},
		{"\x01\x00\x00\x00\x00\x00\x00\x00", "-2", "\xfe\xff\xff\xff\xff\xff\xff\xff"},
		{"\x00", "1", "\x01"},
		{"\x00", "2", ""},
		{"\x00", "on", ""},
		{"", "1", ""},
		{"\x01\x02\x03", "1", ""},
	} {
		got, err := encodeSetting([]byte(tt.now), tt.value)
		if (err == nil) != (tt.want != "") || string(got) != tt.want {
			t.Errorf("%q = %s: %q, %v; want %q", tt.now, tt.value, got, err, tt.want)
		}
	}
}

func FuzzEncodeSetting(f *testing.F) {
	f.Add([]byte{0, 4, 0, 0}, "4096")
	f.Add([]byte("ABC\x00"), "x")
	f.Fuzz(func(t *testing.T, now []byte, value string) {
		got, err := encodeSetting(now, value)
		if err == nil && len(got) != len(now) && (len(got) != len(value)+1 || got[len(got)-1] != 0) {
			t.Errorf("%q = %q: %q", now, value, got)
		}
	})
}

// The bytes are those of struct ifaliasreq, as a C compiler on each system lays
// it out.
func TestAliasRequest(t *testing.T) {
	addr := netip.MustParsePrefix("10.0.2.15/24")
	sockaddr := func(ip string) string { return "\x10\x02\x00\x00" + ip + strings.Repeat("\x00", 8) }
	want := "vioif0" + strings.Repeat("\x00", 10) + sockaddr("\x0a\x00\x02\x0f") + sockaddr("\x0a\x00\x02\xff") +
		sockaddr("\xff\xff\xff\x00")
	got, err := aliasRequest("netbsd", "vioif0", addr)
	if err != nil || string(got) != want {
		t.Errorf("NetBSD: %x, %v; want %x", got, err, want)
	}
	if got, err := aliasRequest("freebsd", "vioif0", addr); err != nil || string(got) != want+"\x00\x00\x00\x00" {
		t.Errorf("FreeBSD: %x, %v", got, err)
	}
	// The number of the request contains the size of its argument.
	for system, request := range map[string]uint32{"netbsd": 0x8040691a, "freebsd": 0x8044692b} {
		if b, _ := aliasRequest(system, "lo0", addr); len(b) != int(request>>16&0x1fff) {
			t.Errorf("%s: %d bytes", system, len(b))
		}
	}
	for _, name := range []string{"", strings.Repeat("x", 16)} {
		if _, err := aliasRequest("netbsd", name, addr); err == nil {
			t.Errorf("the name %q", name)
		}
	}
	for _, a := range []netip.Prefix{{}, netip.MustParsePrefix("fe80::1/64")} {
		if _, err := aliasRequest("netbsd", "lo0", a); err == nil {
			t.Errorf("the address %v", a)
		}
	}
}

func TestArgumentsOfNetBSD(t *testing.T) {
	b := tmpfsArgs(64<<20, 0o1777)
	if len(b) != 40 || binary.LittleEndian.Uint32(b) != 1 || binary.LittleEndian.Uint64(b[16:]) != 64<<20 ||
		binary.LittleEndian.Uint32(b[32:]) != 0o1777 || !bytes.Equal(b[4:16], make([]byte, 12)) {
		t.Errorf("%x", b)
	}
	names := map[string]uint64{}
	for _, n := range netBSDNodes {
		names[n.name] = n.number()
	}
	// As ls -l and makedev(3) of NetBSD have them.
	for name, want := range map[string]uint64{"console": 0, "null": 2<<8 | 2, "zero": 2<<8 | 12, "urandom": 46<<8 | 1,
		"ptmx": 165 << 8} {
		if got, ok := names[name]; !ok || got != want {
			t.Errorf("%s is %#x, want %#x", name, got, want)
		}
	}
	if got := (deviceNode{major: 0xabc, minor: 0x12345}).number(); got != 0x123abc45 {
		t.Errorf("%#x", got)
	}
}

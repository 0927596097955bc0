package qemu

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/readiness"
)

func TestParseReady(t *testing.T) {
	for text, want := range map[string]Ready{
		"console:login: ": {Text: "login: "},
		"tcp:22":          {Server: readiness.Server{Via: readiness.TCP, Port: 22}},
		"ssh:22":          {Server: readiness.Server{Via: readiness.SSH, Port: 22}},
	} {
		if got, err := ParseReady(text); got != want || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "console:", "console: ", "tcp:", "udp:53"} {
		if got, err := ParseReady(text); !fault.Is(err, fault.Invalid) ||
			!strings.HasPrefix(err.Error(), "write console:TEXT, tcp:PORT") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// usernet is what QEMU 7.2.22 printed for such a guest.
const usernet = "Hub -1 (ready):\r\n" +
	"  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n" +
	"  TCP[HOST_FORWARD]   3       127.0.0.1 44381       10.0.2.15    80     0     0\r\n"

func TestParseUsernet(t *testing.T) {
	if got := parseUsernet(usernet, 80); got != 44381 {
		t.Errorf("got %d", got)
	}
	if got := parseUsernet(usernet, 22); got != 0 {
		t.Errorf("got %d", got)
	}
}

func FuzzParseUsernet(f *testing.F) {
	f.Add(usernet)
	f.Add("TCP[HOST_FORWARD] 1 2 99999 3 80")
	f.Fuzz(func(t *testing.T, text string) {
		if n := parseUsernet(text, 80); n < 0 || n >= 1<<16 {
			t.Errorf("%q: %d", text, n)
		}
	})
}

func TestReadyNetwork(t *testing.T) {
	m := ordinary()
	m.Kind, m.Channel, m.Ready = Q35, "", Ready{Server: readiness.Server{Via: readiness.TCP, Port: 22}}
	argv := m.CommandLine()
	if !has(argv, "-netdev", "user,id=ready,restrict=on,hostfwd=tcp:127.0.0.1:0-:22", "-device",
		"virtio-net-pci,netdev=ready,mac="+CardMAC+",romfile=") {
		t.Errorf("got %q", argv)
	}
	m.Ready = Ready{Text: "x"}
	for _, never := range []string{"-netdev", "virtio-serial", "id=channel"} {
		if text := strings.Join(m.CommandLine(), " "); strings.Contains(text, never) {
			t.Errorf("%s has %s", text, never)
		}
	}
}

package qemu

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/reach/answer"
)

func TestParseReady(t *testing.T) {
	for text, want := range map[string]readiness{
		"console:login: ": {text: "login: "},
		"tcp:22":          {server: answer.Server{Via: answer.TCP, Port: 22}},
		"ssh:22":          {server: answer.Server{Via: answer.SSH, Port: 22}},
	} {
		if got, err := parseReady(text); got != want || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "console:", "console: ", "tcp:", "udp:53"} {
		if got, err := parseReady(text); !fault.Is(err, fault.Invalid) ||
			!strings.HasPrefix(err.Error(), "ready: write console:TEXT, tcp:PORT") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestGuestWithoutAgentIsRefused(t *testing.T) {
	with := func(v ...string) param.Values {
		out := param.Values{optDisk: "/d", optMachine: machineQ35, optAgent: agentNone, optReady: "tcp:22"}
		for i := 0; i < len(v); i += 2 {
			out[v[i]] = v[i+1]
		}
		return out
	}
	if err := validate(userGuest(), settings(with())); err != nil {
		t.Error(err)
	}
	for says, v := range map[string]param.Values{
		"nothing says when":           with(optReady, ""),
		"write console:TEXT":          with(optReady, "soon"),
		"up when the agent answers":   with(optAgent, agentYes),
		"has no channel":              with(optChannel, channelDial),
		"guests of images have an ag": {optAgent: agentNone, optReady: "tcp:22"},
	} {
		if err := validate(userGuest(), settings(v)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
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
	m := newMachine(userGuest(), settings(param.Values{optDisk: "/d", optMachine: machineQ35}))
	m.noAgent, m.ready = true, readiness{server: answer.Server{Via: answer.TCP, Port: 22}}
	argv := commandLine(m)
	if !has(argv, "-netdev", "user,id=ready,restrict=on,hostfwd=tcp:127.0.0.1:0-:22", "-device",
		"virtio-net-pci,netdev=ready,mac="+channelMAC+",romfile=") {
		t.Errorf("got %q", argv)
	}
	m.ready = readiness{text: "x"}
	for _, never := range []string{"-netdev", "virtio-serial", "id=channel"} {
		if text := strings.Join(commandLine(m), " "); strings.Contains(text, never) {
			t.Errorf("%s has %s", text, never)
		}
	}
}

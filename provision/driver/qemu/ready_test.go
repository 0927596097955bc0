package qemu

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
)

func TestParseReady(t *testing.T) {
	for text, want := range map[string]readiness{
		"console:login: ":    {via: viaConsole, text: "login: "},
		"tcp:22":             {via: viaTCP, port: 22},
		"http:80/":           {via: viaHTTP, port: 80, path: "/"},
		"http:8080/a/b?c=:d": {via: viaHTTP, port: 8080, path: "/a/b?c=:d"},
	} {
		if got, err := parseReady(text); got != want || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "console:", "console: ", "tcp:", "tcp:0", "tcp:65536", "tcp:022", "tcp:22/",
		"http:80", "http:/", "http:80/a b", "http:80/a\r\nX: y", "udp:53"} {
		if got, err := parseReady(text); !fault.Is(err, fault.Invalid) {
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

func TestAnswer(t *testing.T) {
	for _, tt := range []struct {
		via, says string
		ok        bool
	}{
		{viaHTTP, "HTTP/1.1 200 OK\r\n\r\n", true}, {viaHTTP, "HTTP/1.0 200 OK\r\n\r\n", true},
		{viaHTTP, "HTTP/1.1 404 Not Found\r\n\r\n", false}, {viaHTTP, "SSH-2.0-OpenSSH\r\n", false}, {viaHTTP, "", false},
		{viaTCP, "SSH-2.0-OpenSSH\r\n", true}, {viaTCP, "", false},
	} {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			if tt.via == viaHTTP {
				for in := bufio.NewScanner(theirs); in.Scan() && in.Text() != ""; {
				}
			}
			fmt.Fprint(theirs, tt.says)
		}()
		if err := answer(ours, readiness{via: tt.via, port: 80, path: "/"}); (err == nil) != tt.ok {
			t.Errorf("%s, %q: %v", tt.via, tt.says, err)
		}
		ours.Close()
	}
}

func TestReadyNetwork(t *testing.T) {
	m := newMachine(userGuest(), settings(param.Values{optDisk: "/d", optMachine: machineQ35}))
	m.noAgent, m.ready = true, readiness{via: viaTCP, port: 22}
	argv := commandLine(m)
	if !has(argv, "-netdev", "user,id=ready,restrict=on,hostfwd=tcp:127.0.0.1:0-:22", "-device",
		"virtio-net-pci,netdev=ready,mac="+channelMAC+",romfile=") {
		t.Errorf("got %q", argv)
	}
	m.ready = readiness{via: viaConsole, text: "x"}
	for _, never := range []string{"-netdev", "virtio-serial", "id=channel"} {
		if text := strings.Join(commandLine(m), " "); strings.Contains(text, never) {
			t.Errorf("%s has %s", text, never)
		}
	}
}

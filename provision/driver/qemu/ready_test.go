package qemu

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/guest/qemu"
)

func TestGuestWithoutAgentIsRefused(t *testing.T) {
	with := func(v ...string) param.Values {
		out := param.Values{optDisk: "/d", optMachine: qemu.Q35, optAgent: none, optReady: "tcp:22"}
		for i := 0; i < len(v); i += 2 {
			out[v[i]] = v[i+1]
		}
		return out
	}
	if err := refusal(userGuest(), with()); err != nil {
		t.Error(err)
	}
	for says, v := range map[string]param.Values{
		"nothing says when":           with(optReady, ""),
		"write console:TEXT":          with(optReady, "soon"),
		"up when the agent answers":   with(optAgent, "yes"),
		"has no channel":              with(optChannel, qemu.ChannelDial),
		"guests of images have an ag": {optAgent: none, optReady: "tcp:22"},
	} {
		if err := refusal(userGuest(), v); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

package guests

import (
	"bytes"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/hosts"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
)

// Every command of guests has --json: to print data as JSON, or to say why its output is a stream.
func TestEveryCommandHasJSON(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			check(sub)
		}
		if c.HasSubCommands() || c.Hidden {
			return
		}
		if c.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", c.CommandPath())
		}
		if streams[c.Name()] == "" {
			return
		}
		err := c.ParseFlags([]string{"--json"})
		if err == nil {
			err = c.PreRunE(c, nil)
		}
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "is a stream") {
			t.Errorf("%s --json: %v", c.CommandPath(), err)
		}
	}
	streams := cli.NewStreams(strings.NewReader(""), io.Discard, io.Discard, os.Getenv)
	check(Command(streams, hosts.Controller{Getenv: os.Getenv}))
}

// logs --json prints an object for each line.
func TestLinesAsJSON(t *testing.T) {
	var out bytes.Buffer
	a := &commands{Streams: cli.NewStreams(strings.NewReader(""), &out, io.Discard, os.Getenv)}
	err := a.printLines(strings.NewReader("a\r\n\n<b>\xff\nrest"))
	want := `{"text":"a"}
{"text":""}
{"text":"<b>` + "�" + `"}
{"text":"rest"}
`
	if err != nil || strings.ReplaceAll(out.String(), `\ufffd`, "�") != want {
		t.Errorf("%v, %s", err, out.String())
	}
}

// A machine of bhyve has the kinds of information that bakeoff itself knows, in the words of QEMU.
func TestInfoOfBhyve(t *testing.T) {
	g := &vm.Guest{Guest: manifest.Guest{Brand: manifest.Bhyve, Driver: manifest.DriverBhyve}}
	if got := infoKindsOf(g); !reflect.DeepEqual(got, []string{"filesystems", "vnc"}) {
		t.Errorf("its kinds are %q", got)
	}
	for at, want := range map[string]any{"": map[string]bool{"enabled": false},
		"127.0.0.1:5901": map[string]any{"enabled": true, "host": "127.0.0.1", "service": "5901"}} {
		g.VNC = at
		if got, err := infoOf(t.Context(), g, "vnc"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("at %q: %v, %v", at, got, err)
		}
	}
}

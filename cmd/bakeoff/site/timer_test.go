package site

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/site"
)

// The units are what systemd itself reads, whatever the folder is called.
func TestTimerUnits(t *testing.T) {
	for _, name := range []string{"blog", `a "b" $HOME %n c\d`} {
		base := t.TempDir()
		dir := filepath.Join(base, name)
		if err := site.Init(dir, "Harbor", time.Now()); err != nil {
			t.Fatal(err)
		}
		run := func() error {
			var out, errs said
			c := Command(cli.NewStreams(nil, &out, &errs, func(string) string { return "" }), "test")
			c.SetArgs([]string{"timer", "--name", "harbor", "--write", base, dir})
			c.SilenceErrors, c.SilenceUsage = true, true
			return c.ExecuteContext(t.Context())
		}
		if err := run(); err != nil {
			t.Fatal(err)
		}
		if err := run(); err == nil {
			t.Error("units are replaced")
		}
		verify, err := exec.LookPath("systemd-analyze")
		if err != nil {
			t.Skip("needs systemd-analyze: apt-get install systemd")
		}
		text, err := exec.CommandContext(t.Context(), verify, "verify", filepath.Join(base, "harbor.service"),
			filepath.Join(base, "harbor.timer")).CombinedOutput()
		if err != nil || len(text) > 0 {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

package bakeoff

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// oldGo stands in for the go of a distribution. It downloads the toolchain as
// Go 1.19 does: as files that are not executable.
const oldGo = `#!/bin/sh
toolchain=golang.org/toolchain@v0.0.1-RELEASE.linux-amd64
case "$*" in
version) echo "go version $HAVE linux/amd64" ;;
'env GOHOSTOS') echo linux ;;
'env GOHOSTARCH') echo amd64 ;;
'env GOMODCACHE') echo "$CACHE" ;;
"mod download $toolchain")
	mkdir -p "$CACHE/$toolchain/bin" "$CACHE/$toolchain/pkg/tool/linux_amd64" \
	"$CACHE/cache/download/golang.org/toolchain/@v"
	echo '#!/bin/sh' >"$CACHE/$toolchain/bin/go"
	echo '#!/bin/sh' >"$CACHE/$toolchain/pkg/tool/linux_amd64/compile"
	printf '%s' "$SUM" >"$CACHE/cache/download/golang.org/toolchain/@v/v0.0.1-RELEASE.linux-amd64.ziphash" ;;
*) echo "unexpected: go $*" >&2; exit 1 ;;
esac
`

// setup.sh downloads the toolchain that go.mod names if the go in PATH is older,
// and uses it only if it has the recorded sum.
func TestSetupDownloadsTheToolchain(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	release := "go" + regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(mod))[1]
	script, err := os.ReadFile("setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		pinned := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(release) + `\.linux-` + arch + ` (h1:\S{43}=)$`)
		found := pinned.FindStringSubmatch(string(script))
		if found == nil {
			t.Fatalf("setup.sh has no sum of %s for %s, which go.mod names", release, arch)
		}
		sums[arch] = found[1]
	}
	for name, x := range map[string]struct {
		have, sum string
		fails     string // part of the error
		fetched   bool
	}{
		"older":       {have: "go1.19.8", sum: sums["amd64"], fetched: true},
		"another sum": {have: "go1.19.8", sum: sums["arm64"], fails: "instead of " + sums["amd64"]},
		"the same":    {have: release},
		"newer":       {have: "go1.100.1"},
	} {
		t.Run(name, func(t *testing.T) {
			bin, cache := t.TempDir(), t.TempDir()
			for program, text := range map[string]string{
				"go":         strings.ReplaceAll(oldGo, "RELEASE", release),
				"dpkg-query": "#!/bin/sh\nprintf installed\n",
				"apt-get":    "#!/bin/sh\nexit 1\n",
			} {
				if err := os.WriteFile(filepath.Join(bin, program), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			setup := func(arg string) (string, error) {
				c := exec.Command("sh", "./setup.sh", arg)
				c.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HAVE=" + x.have, "SUM=" + x.sum, "CACHE=" + cache}
				out, err := c.CombinedOutput()
				return string(out), err
			}
			out, err := setup("go")
			if (err != nil) != (x.fails != "") || !strings.Contains(out, x.fails) {
				t.Errorf("setup.sh go: %v\n%s", err, out)
			}
			want := "go"
			if x.fetched {
				want = cache + "/golang.org/toolchain@v0.0.1-" + release + ".linux-amd64/bin/go"
			}
			if out, err := setup("print-go"); err != nil || out != want+"\n" {
				t.Errorf("setup.sh print-go: %v\n%swant %s", err, out, want)
			}
			if out, err := setup("go"); x.fails == "" && (err != nil || out != "") {
				t.Errorf("setup.sh go, again: %v\n%s", err, out)
			}
		})
	}
}

// make without a target builds both programs, as README.md says.
func TestMakeAloneBuilds(t *testing.T) {
	for name, args := range map[string][]string{"own go": {"-n"}, "given go": {"-n", "GO=go"}} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command("make", args...)
			c.Env = append(os.Environ(), "MAKEFLAGS=") // not those of make test
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, program := range []string{"-o bakeoff ", "-o bakeoff-agent "} {
				if !strings.Contains(string(out), program) {
					t.Errorf("make does not run go build %s:\n%s", program, out)
				}
			}
		})
	}
}

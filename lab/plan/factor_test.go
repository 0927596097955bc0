package plan

import (
	"fmt"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/lab/manifest"
)

// The factor is every difference that the lab file makes, and no other.
func TestFactors(t *testing.T) {
	host := manifest.Contender{Name: "host", Driver: "host", Host: "local", CPUs: 1, Memory: 512 * unit.MiB}
	with := func(base manifest.Contender, name string, change func(*manifest.Contender)) Contender {
		base.Name = name
		change(&base)
		return Contender{Contender: base}
	}
	base := with(host, "base", func(c *manifest.Contender) {
		c.Driver, c.Image, c.Options = "oci", "debian:bookworm", param.Values{"runtime": "crun", "filter": "true"}
		c.Params = map[string]param.Values{"try": {"argv": "gzip\n-9\nbig file"}}
		c.Env, c.Tuning = map[string]string{"LANG": "C"}, map[string]string{"net.core.somaxconn": "128"}
		c.Volumes = []manifest.Volume{{Path: "/data", Backing: "dir"}}
	})
	p := &Plan{Baseline: "base",
		Cells: []Cell{{Cell: manifest.Cell{Name: "try", Params: param.Values{"timeout": "10m0s"}}},
			{Cell: manifest.Cell{Name: "other", Params: param.Values{"timeout": "10m0s"}}}},
		Contenders: []Contender{base,
			with(base.Contender, "same", func(*manifest.Contender) {}),
			with(base.Contender, "all", func(c *manifest.Contender) {
				c.Image, c.Options = "debian:trixie", param.Values{"runtime": "runc", "filter": "true"}
				c.CPUs, c.Quota, c.Memory, c.IO.Write = 2, 0.5, unit.GiB, 2*unit.MiB
				c.Volumes = []manifest.Volume{{Path: "/data", Backing: "file:zfs", Size: unit.GiB,
					Properties: map[string]string{"compression": "lz4"}}}
				c.Tuning, c.Env = nil, map[string]string{"LANG": "de", "GOGC": "off"}
				c.Params = map[string]param.Values{"try": {"argv": "zstd\nbig", "timeout": "1s"}}
				c.Packages = []string{"python3", "zstd"}
			}),
			with(host, "bare", func(c *manifest.Contender) { c.Host = "box" }),
		}}
	for _, c := range []struct{ contender, cell, want string }{
		{"same", "try", ""},
		{"all", "try", `image: debian:bookworm → debian:trixie
runtime: crun → runc
cpus: 1 → 2
quota:  → 0.5
memory: 512MiB → 1GiB
io.write:  → 2MiB/s
volumes./data: dir → file:zfs 1GiB compression=lz4
tuning.net.core.somaxconn: 128 →` + " " + `
packages:  → python3 zstd
params.argv: gzip -9 'big file' → zstd big
params.timeout: 10m0s → 1s
env.GOGC:  → off
env.LANG: C → de
`},
		{"bare", "other", "driver: oci → host\nhost: local → box\nvolumes./data: dir → \n" +
			"tuning.net.core.somaxconn: 128 → \nenv.LANG: C → \n"},
	} {
		var got strings.Builder
		for _, f := range p.Factors(c.contender, c.cell) {
			fmt.Fprintf(&got, "%s: %s → %s\n", f.Name, f.Baseline, f.Contender)
		}
		if got.String() != c.want {
			t.Errorf("%s on %s:\n%swant\n%s", c.contender, c.cell, got.String(), c.want)
		}
	}
}

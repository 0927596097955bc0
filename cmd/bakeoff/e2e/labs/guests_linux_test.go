package labs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/driver/qemu/bootdisk"
	"bakeoff/provision/image"
	"bakeoff/reach/conn/local"
)

// insideLab compares a disk that boots by itself, with the agent in it, with the host.
const insideLab = `schema: bakeoff/lab/v1
name: own
defaults: {memory: 256MiB}
contenders:
  - {name: host, driver: host}
  - {name: own, driver: qemu, machine: q35, accel: tcg, disk: DISK, channel: dial, boot-timeout: 6m}
baseline: host
cells: [{name: sha256, workload: crypto, params: {time: 100ms}, primary: true}]
design: {blocks: 1, instances: run, budget: 2m}
`

// outsideLab compares how fast two guests start whose agent is not used. The tests of the
// driver do so under UEFI, too, which takes seven seconds a boot.
const outsideLab = `schema: bakeoff/lab/v1
name: outside
defaults: {memory: 256MiB}
contenders:
  - {name: bios, driver: qemu, machine: q35, accel: tcg, disk: DISK, agent: none, boot-timeout: 3m,
     ready: "console:starting the kernel"}
  - {name: large, driver: qemu, machine: q35, accel: tcg, disk: DISK, agent: none, memory: 512MiB,
     boot-timeout: 3m, ready: "console:starting the kernel"}
baseline: bios
cells: [{name: boot, workload: boot, primary: true}]
design: {blocks: 1, mirror: false, instances: run, budget: 3m}
`

// servedLab measures the web servers of guests without the agent over a network.
const servedLab = `schema: bakeoff/lab/v1
name: served
defaults: {memory: 256MiB}
contenders:
  - {name: small, driver: qemu, machine: q35, accel: tcg, disk: DISK, agent: none, ready: "http:80/index.html",
     boot-timeout: 3m}
  - {name: large, driver: qemu, machine: q35, accel: tcg, disk: DISK, agent: none, memory: 512MiB,
     ready: "http:80/index.html", boot-timeout: 3m}
baseline: small
cells:
  - {name: page, workload: http, primary: true,
     params: {server: own, port: 80, path: /index.html, connections: 2, keepalive: false, time: 500ms, timeout: 30s}}
design: {blocks: 1, mirror: false, instances: run, budget: 3m}
`

// TestOwnGuests measures guests that bakeoff did not make: inside as a full contender, and
// from outside.
func TestOwnGuests(t *testing.T) {
	e2e.NeedsRoot(t)
	if what, pkg := bootdisk.Lacks(); what != "" {
		t.Skipf("needs %s: apt-get install %s", what, pkg)
	}
	h := e2e.New(t)
	store := image.Store{Dir: filepath.Join(h.Variable("BAKEOFF_CACHE"), "image"), Host: local.Conn{}}
	img, err := store.Get(t.Context(), image.Request{Ref: "debian:bookworm", Disk: true, Kernel: true})
	if err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(h.Dir, "disk.raw")
	if err := bootdisk.Disk(t.Context(), bootdisk.Kernel{Image: img.Kernel, Modules: img.Modules,
		Agent: filepath.Join(filepath.Dir(h.Command().Path), "bakeoff-agent")}, disk); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, lab, metric string
		contenders        []string
	}{{"inside", insideLab, "throughput", []string{"host", "own"}},
		{"outside", outsideLab, "ready", []string{"bios", "large"}},
		{"served", servedLab, "throughput", []string{"small", "large"}}} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "served" && os.Getenv("BAKEOFF_TEST_LONG") == "" {
				t.Skip("takes long under emulation, and the tests of qemu ask such a guest: set BAKEOFF_TEST_LONG=1")
			}
			file := filepath.Join(h.Dir, tt.name+".yaml")
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(tt.lab, "DISK", disk)), 0o600); err != nil {
				t.Fatal(err)
			}
			r, code := h.Example(t, file, "--seed", "5")
			for _, m := range r.Missing {
				t.Errorf("%s: %s", m.Contender, m.Reason)
			}
			seen := map[string]float64{}
			for _, s := range r.Summaries {
				if s.Metric == tt.metric && s.Median != nil {
					seen[s.Contender] = *s.Median
				}
			}
			for _, name := range tt.contenders {
				if !(seen[name] > 0) {
					t.Errorf("%s has no %s: %v", name, tt.metric, seen)
				}
			}
			t.Logf("%s: %v", tt.metric, seen)
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
			h.Holds(t, r.Folder)
		})
	}
	h.LeavesNothing(t)
	// What needs the agent is refused before anything starts.
	refused := strings.Replace(outsideLab, "workload: boot", "workload: crypto", 1)
	file := filepath.Join(h.Dir, "refused.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(refused, "DISK", disk)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := h.Bakeoff(t, 3*time.Minute, "plan", file); code == 0 ||
		!strings.Contains(out+errs, "it has no agent, and the workload crypto") {
		t.Errorf("plan: exit code %d\n%s%s", code, out, errs)
	}
}

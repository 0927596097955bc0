package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/unit"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool/fio"
	"bakeoff/measure/workload/crypto"
	external "bakeoff/measure/workload/external/runner"
	"bakeoff/measure/workload/files"
	"bakeoff/measure/workload/memory"
	"bakeoff/measure/workload/systemcall"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// roomy is a driver that enforces memory, whose environments have volumes and the host's system.
type roomy struct{ *shelf }

func (r roomy) Doc() driver.Doc {
	d := r.shelf.Doc()
	d.Backings = []string{"dir", "file:ext4", "tmpfs"}
	d.Enforces = map[string]string{"memory": "somehow"}
	return d
}

// foreign is a driver whose environments have the system that it is called by.
type foreign struct{ roomy }

func (f foreign) System(context.Context, conn.Conn, driver.Spec) string { return f.name }

// refusals plans a lab whose contender x has this driver and these cells, and returns what is
// said against it or the cells. A plan without any cell is refused.
func refusals(t *testing.T, contender, cells string) string {
	t.Helper()
	drivers := []driver.Driver{&shelf{name: "shelf"}, roomy{&shelf{name: "roomy"}}, foreign{roomy{&shelf{name: "netbsd"}}},
		foreign{roomy{&shelf{name: "windows"}}}}
	workloads := []execution.Runner{&dice{}, execution.Native(files.New()), execution.Native(memory.New()),
		execution.Native(crypto.New()), execution.Native(systemcall.New()), external.New(fio.New())}
	cat := CatalogueOf(drivers, workloads)
	src := "schema: bakeoff/lab/v1\nname: look\ncontenders: [{name: x, " + contender + "}]\nbaseline: x\ncells:\n" + cells
	lab, err := manifest.Parse("lab.yaml", []byte(src), cat, "")
	if err != nil {
		return err.Error()
	}
	p, err := plan.Expand(lab, cat, 1, "test")
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	s, err := Inspect(t.Context(), p, Site{Drivers: drivers, Workloads: workloads,
		Way:   func(string) (conn.Conn, error) { return local.Conn{}, nil },
		Size:  func(string) (int, unit.Bytes, error) { return 4, 8 * unit.GiB, nil },
		State: func(string) string { return state }, Cache: filepath.Join(state, "cache")})
	if err != nil {
		t.Fatal(err)
	}
	var all []error
	for _, u := range s.Unfit {
		all = append(all, u)
	}
	a := s.Answers[0].Answer
	if !a.OK {
		all = append(all, errors.New(a.String()))
	}
	if err := s.Refusal(); (err != nil) != (len(all) == len(p.Cells) || len(s.Wrong) > 0 || !a.OK) ||
		s.Short() != (len(all) > 0) {
		t.Errorf("%d of %d cells: %v", len(all), len(p.Cells), err)
	}
	return fmt.Sprint(errors.Join(append(all, s.Wrong...)...))
}

// The plan says what a workload knows of a cell before anything is created.
func TestCellsThatNoEnvironmentCanHave(t *testing.T) {
	if _, err := os.Stat("/proc/self/mountinfo"); err != nil {
		t.Skip("needs Linux: the environments of the driver roomy have the system of this machine")
	}
	const one = "cell one cannot run in x: "
	cell := func(text string) string { return "  - {name: one, " + text + "}\n" }
	volume := func(text string) string { return ", memory: 256MiB, volumes: {/data: {" + text + "}}" }
	ext4, tmpfs := volume("backing: file:ext4, size: 1GiB"), volume("backing: tmpfs, size: 1GiB")
	cold := cell("workload: files, params: {op: seq-read, cache: cold}")
	for _, tt := range []struct{ what, contender, cells, want string }{
		{"cold on Linux", "driver: roomy" + ext4, cold, ""},
		{"warm in memory", "driver: roomy" + tmpfs, cell("workload: files"), ""},
		{"cold in memory", "driver: roomy" + tmpfs, cold,
			one + "cache=cold: a volume with backing: tmpfs is in memory; write cache: warm"},
		{"cold on another system", "driver: netbsd" + ext4, cold,

			one + "cache=cold: netbsd cannot drop a file from memory and say that it did; write cache: warm"},
		{"cold writes", "driver: roomy" + ext4, cell("workload: files, params: {op: seq-write, cache: cold}"),
			"cell one: cache=cold requires op=seq-read or op=rand-read (got seq-write)"},
		{"a size between two blocks", "driver: roomy" + ext4, cell("workload: files, params: {op: copy, size: 4100}"),
			"cell one: size must be a multiple of block"},
		{"half a cache line", "driver: roomy", cell("workload: memory, params: {block: 1000}"),
			"cell one: block must be a multiple of 64 bytes (got 1000)"},
		{"not on Windows", "driver: windows", cell("workload: syscall"),
			one + "bakeoff-agent for Windows does not have this workload; remove the cell"},
		{"on Windows", "driver: windows", cell("workload: crypto"), ""},
		{"a buffer larger than the memory", "driver: roomy, memory: 64MiB", cell("workload: memory, params: {block: 64MiB}"),

			"cell one needs 64MiB of memory, but an environment has only 64MiB (lab.yaml:3:47); give it more memory"},
		{"a copy of half the memory", "driver: roomy, memory: 64MiB",
			cell("workload: memory, params: {op: copy, block: 32MiB}"), "cell one needs 64MiB of memory"},
		{"less than the memory", "driver: roomy, memory: 64MiB", cell("workload: memory, params: {block: 16MiB}"), ""},
		{"a file in memory that is larger", "driver: roomy" + tmpfs,
			cell("workload: files, params: {op: copy, size: 128MiB}"),

			"cell one needs 262152KiB of memory, with the files in volume /data (tmpfs), but an environment has only 256MiB"},
		{"several files in memory", "driver: roomy" + tmpfs,
			cell("workload: files, params: {op: seq-read, size: 128MiB}") +
				"  - {name: two, workload: fio, params: {size: 128MiB, direct: false}}\n",
			"cell two needs 256MiB of memory"},
		{"a file twice", "driver: roomy" + tmpfs, cell("workload: files, params: {op: seq-read, size: 128MiB}") +
			"  - {name: two, workload: files, params: {op: rand-read, size: 128MiB}}\n", ""},
		{"as large as its volume", "driver: roomy" + volume("backing: tmpfs, size: 64MiB"),
			cell("workload: files, params: {op: seq-read}"), ""},
		{"as large as its volume on another system", "driver: netbsd" + volume("backing: tmpfs, size: 64MiB"),
			cell("workload: files, params: {op: seq-read}"),

			one + "the files in volume /data need 64MiB of its 64MiB, but netbsd also stores its own data in a volume; " +
				"write a larger size"},
		{"larger than the disk", "driver: roomy, volumes: {/data: {backing: dir}}",
			cell("workload: files, params: {op: seq-read, block: 1MiB, size: 8TiB, time: 1s}"),
			one + "the files in volume /data need 8TiB in"},
		{"small files", "driver: roomy" + volume("backing: tmpfs, size: 64MiB"),
			cell("workload: files, params: {block: 1MiB}"),
			"cell \"one\" keeps 513MiB in files, and the volume /data of contender \"x\" has 64MiB; write a smaller block"},
	} {
		got := refusals(t, tt.contender, tt.cells)
		if tt.want == "" && got != "<nil>" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

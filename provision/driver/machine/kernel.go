package machine

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
	"bakeoff/provision/affinity"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// kernel is what the driver knows of an operating system.
type kernel struct {
	goos string
	// packages are the folders of programs that are not in the base system.
	packages string
	// processes prints a line for each process: its number, its parent's, and its command
	// line, with its environment if the system shows that. On Linux, /proc says it.
	processes []string
}

// kernels are the systems, by the output of uname -s.
var kernels = map[string]kernel{
	"Linux":     {goos: "linux", packages: "/usr/local/sbin:/usr/local/bin"},
	"FreeBSD":   {"freebsd", "/usr/local/sbin:/usr/local/bin", psBSD},
	"OpenBSD":   {"openbsd", "/usr/local/sbin:/usr/local/bin", psBSD},
	"NetBSD":    {"netbsd", "/usr/pkg/sbin:/usr/pkg/bin", psBSD},
	"DragonFly": {"dragonfly", "/usr/local/sbin:/usr/local/bin", psBSD},
	"SunOS": {"illumos", "/opt/local/sbin:/opt/local/bin:/opt/tools/sbin:/opt/tools/bin",
		[]string{"sh", "-c", illumosProcesses}},
	"Darwin": {"darwin", "/opt/homebrew/sbin:/opt/homebrew/bin:/opt/local/sbin:/opt/local/bin:/usr/local/bin",
		[]string{"ps", "-axEww", "-o", "pid=", "-o", "ppid=", "-o", "command="}},
}

// psBSD is the ps of the BSDs, where -e adds the environment.
var psBSD = []string{"ps", "-axeww", "-o", "pid=", "-o", "ppid=", "-o", "command="}

// kernelOf asks host for its system. An unknown one is an error of kind fault.Unsupported.
func kernelOf(ctx context.Context, host conn.Conn, memo *driver.Memo) (kernel, error) {
	return driver.Remember(memo, "kernel", func() (kernel, error) {
		name, err := guest.Output(ctx, host, "uname", "-s")
		if err != nil {
			return kernel{}, err
		}
		k, ok := kernels[name]
		if !ok {
			return k, fault.New(fault.Unsupported, "the host runs %s, which bakeoff does not know", safetext.Line(name))
		}
		return k, nil
	})
}

// path is PATH for the programs of an environment.
func (k kernel) path() string { return k.packages + ":/usr/sbin:/usr/bin:/sbin:/bin" }

// elsewhere names what holds limits on the same system.
func (k kernel) elsewhere() string {
	return map[string]string{"linux": "; or use the driver host, which has control groups",
		"freebsd": "; or use the driver jail", "illumos": "; or use the driver zone"}[k.goos]
}

// checkVolumes refuses volumes that bakeoff cannot make on the system.
func (k kernel) checkVolumes(volumes []volume.Volume) error {
	for _, v := range volumes {
		if k.goos != "linux" && v.Backing != volume.Dir {
			return fault.WithFix(fault.New(fault.Unsupported, "volume %s: bakeoff can create the backing %s only on "+
				"bare machines with Linux", v.Path, v.Backing), "write backing: dir, and set dir: of the host to a folder on the "+
				"file system to measure")
		}
	}
	return nil
}

// rule is what a shell of FreeBSD executes: a rule for a process also holds for what it
// starts, and ends with it.
const rule = `rctl -a "process:$$:memoryuse:sigkill=$1" && shift && exec "$@"`

// limit returns the words to put before a command line, so that the program is held to the
// limits of spec, as far as the system can do that.
func (k kernel) limit(ctx context.Context, host conn.Conn, spec driver.Spec, o options) (argv []string,
	out facts.Limits, err error) {
	out.NotEnforced = map[string]string{}
	if argv, err = k.pin(ctx, host, spec, o, &out); err != nil {
		return nil, out, err
	}
	for what, asked := range map[string]bool{"quota": spec.Quota > 0, "io": spec.Read > 0 || spec.Write > 0} {
		if asked {
			out.NotEnforced[what] = "a bare machine has none without control groups"
		}
	}
	if spec.Memory == 0 {
		return argv, out, nil
	}
	if k.goos != "freebsd" {
		out.NotEnforced["memory"] = "on " + k.goos + ", the driver machine cannot limit the memory of a program"
		return argv, out, nil
	}
	counts, yes, err := guest.Ask(ctx, host, "sysctl", "-n", "kern.racct.enable")
	if err != nil {
		return nil, out, err
	}
	if !yes || counts != "1" {
		out.NotEnforced["memory"] = "the kernel does not count: kern.racct.enable=1 in /boot/loader.conf, and restart"
		return argv, out, nil
	}
	memory := spec.Memory
	out.Memory = &memory
	return append(argv, "sh", "-c", rule, "sh", strconv.FormatInt(int64(memory), 10)), out, nil
}

// pin holds programs to the CPUs of spec.
func (k kernel) pin(ctx context.Context, host conn.Conn, spec driver.Spec, o options, out *facts.Limits) ([]string,
	error) {
	n, set := len(spec.CPUSet), spec.CPUSet
	out.CPUs, out.CPUSet = &n, set
	if all, err := cpusOf(host); err == nil && len(all) > 0 && n >= len(all) && o.set == "" {
		return nil, nil // it may use all that there are
	}
	argv, err := affinity.Prefix(k.goos, spec.Agent, set, o.set)
	switch {
	case o.set != "" && err != nil:
		return nil, err
	case err != nil:
		out.CPUs, out.CPUSet = nil, nil
		out.NotEnforced["cpus"] = err.Error()
		return nil, nil
	case o.set == "":
		return argv, nil
	case argv[0] != "psrset":
		out.CPUs, out.CPUSet = nil, nil
		out.NotEnforced["cpus"] = fmt.Sprintf("programs run in the resource pool %s, and bakeoff does not know its CPUs",
			o.set)
		return argv, nil
	}
	said, err := guest.Output(ctx, host, "psrset", "-i", o.set)
	if err != nil {
		return nil, fault.WithFix(fault.Wrap(fault.Unsupported, "processor set "+o.set, err),
			"psrset -i lists those that exist")
	}
	if set, err = parseSet(said); err != nil {
		return nil, err
	}
	if len(set) != n {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "the processor set %s has %d CPUs, but the limit "+
			"cpus is %d", o.set,
			len(set), n), fmt.Sprintf("write cpus: %d, or name another set", len(set)))
	}
	out.CPUSet = set
	return argv, nil
}

// setLine is what psrset -i prints of a set: "user processor set 1: processors 2 3".
var setLine = lazy.Compile(`^user processor set [0-9]+: (?:empty|processors?((?: [0-9]+)+))$`)

func parseSet(text string) ([]int, error) {
	m := setLine.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return nil, fault.New(fault.Lab, "psrset -i printed %q, which is not a processor set", safetext.Line(text))
	}
	var out []int
	for f := range strings.FieldsSeq(m[1]) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, fault.New(fault.Lab, "psrset -i printed %q, which is not the number of a CPU", safetext.Line(f))
		}
		out = append(out, n)
	}
	return out, nil
}

// cpusOf are the CPUs that programs on host may use.
func cpusOf(host conn.Conn) ([]int, error) {
	if m, ok := host.(Machine); ok {
		return m.Machine().CPUs, nil
	}
	return probe.CPUs()
}

// Mark is the variable by which the processes of an environment are found again. Its value
// ends with a character that no label has, so that it begins no other one.
func Mark(label string) string { return "BAKEOFF_ENVIRONMENT=" + label + ":" }

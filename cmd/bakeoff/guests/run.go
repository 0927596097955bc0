package guests

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/hosts"
	"bakeoff/measure/webroot"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn/local"
)

// guests is the store of the guests of this machine.
func (a *commands) guests() (*vm.Store, error) { return Store(a.at) }

// Store is the store of the guests of this machine.
func Store(at hosts.Controller) (*vm.Store, error) {
	agent, err := at.Agent()
	return storeWith(at, agent), err
}

func storeWith(at hosts.Controller, agent string) *vm.Store {
	state, _ := at.Dirs()
	return &vm.Store{State: state, Host: local.Conn{}, Agent: agent}
}

// guest finds the guest that a person named.
func (a *commands) guest(name string) (*vm.Guest, error) {
	s, err := a.guests()
	if err != nil {
		return nil, err
	}
	return s.Find(name)
}

// guestRunner is bakeoff vm run.
type guestRunner struct {
	*commands
	source  vm.Source
	brand   string
	driver  string
	ports   []string
	shares  []string
	env     []string
	memory  string
	cpus    int
	name    string
	accel   string
	restart string
	sshKey  string
	disk    string // the size of the disk
	console bool
	remove  bool
	asJSON  bool
}

func (a *commands) vmRun() *cobra.Command {
	r := &guestRunner{commands: a}
	c := &cobra.Command{
		Use:   "run SOURCE [-- COMMAND [ARGUMENT...]]",
		Short: "Create a guest and start it: from a service, an image, a disk, a kernel or an ISO image",
		Long: `run builds or fetches what is missing, creates a guest, starts it, and prints its UUID.
The addresses of its published ports go to standard error. SOURCE is

  a folder     a service, which "bakeoff image build" builds: a microVM;
               on FreeBSD, the root of a jail
  an image     of the store or a registry, such as alpine:3.20: a container
               an artifact of a registry that is one file, raw or qcow2: the disk of a machine
  disk:FILE    the disk of a machine, raw or qcow2, with its boot loader
  a file       such a disk, a kernel, or the ISO image of an installer

The guest writes to its own disk; FILE stays unchanged. With --disk-size, an installer gets
an empty disk. The machine starts from the ISO image until this disk has a boot loader.
Ports are published at 127.0.0.1 unless -p names another address. -v mounts a folder in a
container, and in a virtual machine that runs a service or an image (by virtiofs). A virtual
machine with its own system can mount the folders by 9p: "bakeoff vm info GUEST filesystems"
prints the commands.

When the program of a container ends, run --console ends with the exit code of the program. The exit
code is 0 for a machine, after ^], and if another command stops the guest.`,
		Example: `  sudo bakeoff vm run services/web -p 8080:80
  sudo bakeoff vm run services/web -p 8080:80 --brand docker
  sudo bakeoff vm run services/web -p 8080:80 --driver lxc
  sudo bakeoff vm run services/web -p 8080:80 --driver firecracker
  bakeoff vm run disk:FreeBSD-14.2-RELEASE-amd64.raw --driver bhyve -p 2222:22
  sudo bakeoff vm run services/rescue --in-memory --console --rm
  sudo bakeoff vm run alpine:3.20 --console --rm -- sh
  sudo bakeoff vm run alpine:3.20 -v /srv/data:/data -e MODE=fast -- sh -c 'ls /data'
  sudo bakeoff vm run disk:debian-12-genericcloud-amd64.qcow2 --name box --memory 2GiB \
    --disk-size 20GiB --ssh-key ~/.ssh/id_ed25519.pub -p 2222:22
  sudo bakeoff vm ssh debian@box
  sudo bakeoff vm run debian-13.1.0-amd64-netinst.iso --disk-size 20GiB --memory 2GiB --console
  sudo bakeoff vm run registry.example/disks/netbsd:11 --kernel netbsd-SMOL --console`,
		Args: cli.Between(1, math.MaxInt, "SOURCE"),
		RunE: r.runGuest,
	}
	f := c.Flags()
	f.StringArrayVarP(&r.ports, "publish", "p", nil, "make a TCP port of the guest reachable: `[[ADDRESS:]HOST:]GUEST`")
	f.StringArrayVarP(&r.shares, "volume", "v", nil, "share a folder of the host: `DIR:PATH[:ro]`")
	f.StringArrayVarP(&r.env, "env", "e", nil, "set an environment variable of the program: `NAME=VALUE`")
	f.StringVar(&r.memory, "memory", "512MiB", "memory of the guest")
	f.IntVar(&r.cpus, "cpus", 1, "CPUs of the guest")
	f.StringVar(&r.name, "name", "", "alias of the guest; the default is the name of the source")
	f.StringVar(&r.brand, "brand", "",
		"make a guest of this `brand` (kind of guest, as in SmartOS): kvm, bhyve, microvm, docker, lx or joyent")
	f.StringVar(&r.driver, "driver", "",
		"run the guest with this `driver`: crun (the default for containers), runc, nspawn or lxc;\n"+
			"jail (on FreeBSD); qemu (the default for machines), firecracker or bhyve (on FreeBSD)")
	f.StringVar(&r.accel, "accel", "", "what executes a machine's instructions: kvm or tcg")
	f.StringVar(&r.restart, "restart", "no", "restart the guest when it ends: no, on-failure or always")
	f.StringVar(&r.source.Kernel, "kernel", "", "start the disk with this kernel `file`")
	f.StringVar(&r.source.Append, "append", "", "command line of the kernel")
	f.StringVar(&r.sshKey, "ssh-key", "",
		"`file` with public keys that may log in to a machine of brand kvm or bhyve by SSH; cloud-init installs the keys")
	f.StringVar(&r.disk, "disk-size", "",
		"enlarge the disk of a machine to this `size`; an ISO image gets an empty disk of this size")
	f.BoolVar(&r.source.InMemory, "in-memory", false,
		"put the root of a service into a RAM disk, which is lost when the guest ends")
	f.BoolVar(&r.console, "console", false, "connect the terminal to the console of the guest; ^] leaves the console.\n"+
		"The program of a container then has this terminal")
	f.BoolVar(&r.remove, "rm", false, "delete the guest when it ends")
	f.BoolVar(&r.asJSON, "json", false, "print one JSON object")
	cli.CompleteFlag(c, "driver", func([]string) []string {
		return slices.Concat(manifest.Docker.Drivers(), manifest.MicroVM.Drivers(), []string{manifest.DriverBhyve})
	})
	cli.CompleteFlag(c, "brand", func([]string) []string { return runBrands })
	return c
}

// runBrands are the brands that run makes.
var runBrands = []string{string(manifest.KVM), string(manifest.Bhyve), string(manifest.MicroVM),
	string(manifest.Docker), string(manifest.LX), string(manifest.Joyent)}

// restarts are the values of --restart.
var restarts = []string{"no", "on-failure", "always"}

// check reads what needs no machine.
func (r *guestRunner) check() (m manifest.Guest, b vm.Boot, err error) {
	if r.brand != "" && !slices.Contains(runBrands, r.brand) {
		return m, b, fmt.Errorf("--brand must be %s (got %q)", yamltree.OneOf(runBrands), r.brand)
	}
	if r.driver != "" {
		if r.brand == "" { // an image or a service can be a container
			r.brand = string(manifest.Docker)
			switch r.driver {
			case manifest.Firecracker:
				r.brand = string(manifest.MicroVM)
			case manifest.DriverBhyve:
				r.brand = string(manifest.Bhyve)
			}
		}
		if reason, allowed := manifest.Brand(r.brand).CheckDriver(r.driver); reason != "" {
			return m, b, fmt.Errorf("--driver %s: %s; %s", safetext.Line(r.driver), reason, allowed)
		}
	}
	if !slices.Contains(restarts, r.restart) {
		return m, b, fmt.Errorf("--restart must be %s (got %q)", yamltree.OneOf(restarts), r.restart)
	}
	if r.accel != "" && r.accel != "kvm" && r.accel != "tcg" {
		return m, b, fmt.Errorf("--accel must be kvm or tcg (got %q)", r.accel)
	}
	memory, err := unit.ParseBytes(r.memory)
	if err != nil || memory < 16*unit.MiB {
		return m, b, fmt.Errorf("--memory must be at least 16MiB (got %q)", r.memory)
	}
	if r.cpus < 1 || r.cpus > 256 {
		return m, b, fmt.Errorf("--cpus must be between 1 and 256 (got %d)", r.cpus)
	}
	if r.name != "" && safetext.Line(r.name) != r.name {
		return m, b, errors.New("--name has characters that cannot be printed")
	}
	if r.driver == manifest.DriverBhyve && r.accel != "" {
		return m, b, fmt.Errorf("--accel %s: only QEMU has accelerators; leave it out, or use --driver qemu", r.accel)
	}
	if r.driver == manifest.Firecracker {
		if r.accel == "tcg" {
			return m, b, errors.New("--accel tcg: Firecracker needs KVM; leave it out, or use --driver qemu")
		}
		if len(r.shares) > 0 {
			return m, b, errors.New("-v: Firecracker shares no folders with its guest; leave it out, or use --driver qemu")
		}
	}
	for _, e := range r.env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return m, b, fmt.Errorf("-e must be NAME=VALUE (got %q)", e)
		}
	}
	if r.disk != "" {
		size, err := unit.ParseBytes(r.disk)
		if err != nil || size < unit.MiB || size%unit.MiB != 0 {
			return m, b, fmt.Errorf("--disk-size must be a whole number of MiB (got %q)", r.disk)
		}
		r.source.DiskSize = size
	}
	if r.sshKey != "" {
		keys, err := vm.ReadPublicKeys(r.sshKey)
		if err != nil {
			return m, b, fault.Op("--ssh-key", err)
		}
		m.CustomerMetadata = map[string]any{vm.RootKeys: strings.Join(keys, "\n")}
	}
	for _, text := range r.ports {
		p, err := vm.ParsePort(text)
		if err != nil {
			return m, b, err
		}
		b.Ports = append(b.Ports, p)
	}
	for _, text := range r.shares {
		s, err := vm.ParseShare(text)
		if err != nil {
			return m, b, err
		}
		if r.driver == manifest.DriverBhyve && strings.ContainsAny(s.From, ",%") {
			return m, b, fmt.Errorf("-v %s: bhyve reads no path with a comma or %%; rename the folder", safetext.Line(text))
		}
		b.Shares = append(b.Shares, s)
	}
	b.Remove = r.remove
	m.RAM, m.Restart, m.Ports, m.Autoboot = int(memory/unit.MiB), r.restart, r.ports, true
	return m, b, nil
}

func (r *guestRunner) runGuest(c *cobra.Command, args []string) error {
	if n := c.ArgsLenAtDash(); n > 1 || n < 0 && len(args) > 1 {
		return cli.Usage(c, fmt.Errorf("unexpected argument %q; write -- before the command", args[1]))
	}
	m, boot, err := r.check()
	if err != nil {
		return cli.Usage(c, err)
	}
	ctx, stop := r.Interruptible(c.Context())
	defer stop()
	m.UUID = vm.NewUUID()
	holder, err := r.prepareHolder(ctx, m.UUID) // first, because its start takes longer than the rest
	if err != nil {
		return err
	}
	defer holder.abandon()
	s, err := r.guests()
	if err != nil {
		return err
	}
	r.source.What, r.source.Brand, r.source.Command, r.source.Env = args[0], manifest.Brand(r.brand), args[1:], r.env
	r.source.Driver = r.driver
	if r.driver == manifest.Firecracker || r.driver == manifest.DriverBhyve { // before anything is built or fetched
		would := m
		would.Brand, would.Driver, would.Image = r.source.Brand, r.driver, args[0]
		r.complete(&would, nil)
		if err := vm.Fit(would, s.Tags(), s); err != nil {
			return err
		}
	}
	p, err := s.Prepare(ctx, r.at.Images(r.NoteProgress), r.source,
		build.Options{Agent: s.Agent, Materials: webroot.Materials(), Say: r.NoteProgress})
	if err != nil {
		return err
	}
	p.Ports, p.Shares, p.Boot.Remove, p.Accel = boot.Ports, boot.Shares, boot.Remove, r.accel
	if err := p.Check(); err != nil {
		return err
	}
	if r.disk != "" && (len(p.Disks) == 0 || p.Disks[0].CDROM) {
		return fault.WithFix(fault.New(fault.Unsupported, "--disk-size: bakeoff creates no disk for a guest from "+
			"%s", args[0]),
			"leave it out")
	}
	if r.sshKey != "" && p.Brand != manifest.KVM && p.Brand != manifest.Bhyve {
		return fault.WithFix(fault.New(fault.Unsupported, "--ssh-key: a guest from %s has the brand %s; only "+
			"guests of the brands kvm and bhyve have a disk with data for cloud-init", args[0], p.Brand),
			"leave it out, and use `bakeoff vm exec`")
	}
	m.Brand, m.Driver, m.Alias, m.Image = p.Brand, r.driver, cmp.Or(r.name, p.Name), args[0]
	if p.Brand == manifest.KVM && len(p.Disks) > 1 { // an empty disk, and its installer
		m.Boot = "order=cd"
	}
	r.complete(&m, p.Shares)
	_, m.TTY = terminalOf(r.In)
	m.TTY = m.TTY && r.console && !m.Brand.Machine()
	g, err := s.Create(ctx, m, p.Boot, func(dir string) error {
		if p.Fill == nil {
			return nil
		}
		return p.Fill(ctx, dir)
	})
	if err != nil {
		return err
	}
	if err := g.StartWith(ctx, vm.Extra{Console: r.console && !m.Brand.Machine()}, holder.begin); err != nil {
		fmt.Fprintf(r.Err, "guest %s is kept; see `bakeoff vm logs %s`\n", g.UUID, g.UUID)
		return err
	}
	return r.sayStarted(c.Context(), g)
}

// complete sets what depends on the brand. SmartOS has a property for the folders of a
// container, but none for those of a machine.
func (r *guestRunner) complete(m *manifest.Guest, shares []vm.Share) {
	if m.Brand.Machine() {
		m.VCPUs = r.cpus
	} else {
		m.MaxPhysicalMemory, m.CPUCap = m.RAM, 100*r.cpus
		for _, s := range shares {
			f := manifest.Filesystem{Source: s.From, Target: s.To, Type: "lofs"}
			if s.ReadOnly {
				f.Options = []string{"ro"}
			}
			m.Filesystems = append(m.Filesystems, f)
		}
	}
	manifest.Complete(m)
}

// sayStarted prints what was started, and becomes its console if that is wanted.
func (r *guestRunner) sayStarted(ctx context.Context, g *vm.Guest) error {
	for _, at := range g.Reached {
		i := strings.LastIndexByte(at, ':')
		fmt.Fprintf(r.Err, "port %s of %s is at %s\n", at[i+1:], g.Alias, at[:i])
	}
	if len(g.Reached) == 0 && !r.console && g.State == vm.Running {
		fmt.Fprintf(r.Err, "`bakeoff vm console %s` connects to %s\n", g.UUID, g.Alias)
	}
	if r.asJSON {
		if err := r.PrintJSON(map[string]any{"schema": vmGuestSchema, "guest": g}); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(r.Out, g.UUID)
	}
	if !r.console {
		return nil
	}
	if g.Brand.Machine() {
		_, err := r.attach(ctx, g, g.Printed(scrollback))
		return err
	}
	end, err := g.FollowEnd()
	if err != nil {
		return err
	}
	defer end.Close()
	ended, err := r.attach(ctx, g, "") // its program waits for this
	if err != nil || !ended {
		return err
	}
	last, err := end.Await(ctx)
	switch {
	case err != nil:
		return err
	case last.Exit != nil && *last.Exit != 0:
		return cli.Exit{Code: *last.Exit}
	case last.State == vm.Failed:
		return fault.New(fault.Lab, "guest %s has failed: %s", g.UUID, last.Why)
	}
	return nil
}

// supervisor is a process that will hold a guest. Its start takes as long as the other things
// that precede that of a guest, so it can start meanwhile.
type supervisor struct {
	begins io.WriteCloser // it begins when it reads a byte, and ends if there is none
	said   *os.File
	*exec.Cmd
}

func (a *commands) prepareSupervisor(uuid string) (*supervisor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env, err := a.guestEnv()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "vm", "supervise", uuid)
	c.Env = append(os.Environ(), env...)
	return startSupervisor(c)
}

func startSupervisor(c *exec.Cmd) (s *supervisor, err error) {
	s = &supervisor{Cmd: c}
	if s.begins, err = s.StdinPipe(); err != nil {
		return nil, err
	}
	said, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.said, s.Dir, s.Stdout = said, "/", theirs
	vm.Detach(s.Cmd)
	err = s.Start()
	theirs.Close()
	if err != nil {
		said.Close()
		return nil, fault.Op("supervisor", err)
	}
	return s, nil
}

// begin lets the supervisor start its guest, and waits until it says that the guest runs.
func (s *supervisor) begin(uuid string) error {
	defer s.said.Close()
	_, err := s.begins.Write([]byte{'\n'})
	s.begins.Close()
	s.begins = nil
	if err != nil {
		return s.explainEnd(uuid)
	}
	line, err := bufio.NewReader(io.LimitReader(s.said, 64<<10)).ReadString('\x00')
	if err != nil {
		return s.explainEnd(uuid)
	}
	kind, text, _ := strings.Cut(strings.TrimSuffix(line, "\x00"), "\n")
	if kind == "ok" {
		return s.Process.Release()
	}
	n, err := strconv.Atoi(kind)
	if err != nil {
		return fault.New(fault.Lab, "%s", text)
	}
	return fault.New(fault.Kind(n), "%s", text)
}

// explainEnd is the error for a supervisor that ended without saying anything about its guest,
// for instance because it was killed.
func (s *supervisor) explainEnd(uuid string) error {
	_ = s.Wait() // its state says how it ended
	return fault.WithFix(fault.New(fault.Lab, "the supervisor of guest %s ended (%v) before the guest ran", uuid,
		s.ProcessState), "run `bakeoff vm start "+uuid+"` to start the guest again; `bakeoff vm logs "+uuid+
		"` shows what the guest has printed")
}

// abandon ends a supervisor that has not begun.
func (s *supervisor) abandon() {
	if s.begins != nil {
		s.begins.Close()
		s.said.Close()
		_ = s.Wait() // it ends at once
	}
}

// vmSupervise is the process that holds a guest.
func (a *commands) vmSupervise() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise UUID",
		Short:  "Start a guest and hold it until it ends",
		Long:   "supervise is started by the other commands. SIGTERM shuts the guest down.",
		Hidden: true,
		Args:   cli.Between(1, 1, "UUID"),
		RunE: func(c *cobra.Command, args []string) error {
			agent, err := a.at.AgentPath() // the command that starts a supervisor has asked it
			if err != nil {
				return err
			}
			manager := os.Getenv("NOTIFY_SOCKET") // of systemd, which started it
			if manager == "" {
				if n, err := os.Stdin.Read(make([]byte, 1)); n == 0 {
					return fault.Op("the command that started this supervisor ended", err)
				}
			}
			os.Unsetenv("NOTIFY_SOCKET") // it is not the guest's
			s := storeWith(a.at, agent)
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
			said := false
			return s.Supervise(ctx, args[0], func(err error) {
				if said {
					return
				}
				said = true
				if manager != "" {
					if err == nil {
						err = vm.NotifyReady(manager)
					}
					if err != nil {
						fmt.Fprintln(os.Stderr, err)
					}
					return
				}
				if err == nil {
					fmt.Fprint(os.Stdout, "ok\n\x00")
				} else {
					fmt.Fprintf(os.Stdout, "%d\n%s\x00", int(fault.Of(err)), err)
				}
				os.Stdout.Close() // the command that waits may end
			})
		},
	}
}

package bootenv

import (
	"context"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/reach/conn"
)

// systemd-boot starts an environment from a unified kernel image on the ESP, whose command
// line names the dataset. So each environment has images of its own, built from its kernel
// and its initramfs, and the default of the loader is a pattern of their names. An image is
// TOKEN-KERNEL.efi; kernel-install in the environment makes those of later kernels.
const (
	lineFile  = "/etc/kernel/cmdline"
	tokenFile = "/etc/kernel/entry-token"
	rootArg   = "root=zfs:"
	imageDir  = "/EFI/Linux/"
	mountDir  = "/run/bakeoff-env"
)

// rooted returns a command line with another root, and whether it names one of ZFS.
func rooted(line, dataset string) (string, bool) {
	f := strings.Fields(line)
	i := slices.IndexFunc(f, func(a string) bool { return strings.HasPrefix(a, rootArg) })
	if i < 0 {
		return "", false
	}
	f[i] = rootArg + dataset
	return strings.Join(f, " "), true
}

// tokenOf is the token of an environment that was cloned. No name contains an @, so the
// pattern of one environment matches no image of another one.
func tokenOf(name string) string { return "env@" + name + "@" }

// usesImages reports whether images on the ESP start the running environment.
func (e *Environments) usesImages(ctx context.Context) bool {
	n, err := e.find("")
	if err != nil {
		return false
	}
	line, err := e.output(ctx, "cat", lineFile)
	return err == nil && slices.Contains(strings.Fields(line), rootArg+n.Dataset)
}

// activateImage makes the images of an environment those that systemd-boot starts, and first
// builds one if the environment has none. It can run again after an interruption.
func (e *Environments) activateImage(ctx context.Context, n *Environment, dir string) error {
	line, err := e.output(ctx, "cat", dir+lineFile)
	if err != nil {
		return err
	}
	own, ok := rooted(line, n.Dataset)
	if !ok {
		return fault.New(fault.Unsupported, "%s of the boot environment %s has no %s: %s", lineFile, n.Name,
			rootArg, safetext.Line(line))
	}
	token, err := e.output(ctx, "cat", dir+tokenFile)
	if err != nil {
		return err
	}
	if own != strings.Join(strings.Fields(line), " ") {
		token = tokenOf(n.Name)
		// The command line comes last: it says that there is an image.
		if err := e.write(ctx, dir+tokenFile, token); err != nil {
			return err
		}
		if err := e.buildImage(ctx, dir, token, own); err != nil {
			return err
		}
		if err := e.write(ctx, dir+lineFile, own); err != nil {
			return err
		}
	}
	return e.run(ctx, "bootctl", "set-default", token+"-*")
}

// buildImage builds an image of the newest kernel below dir.
func (e *Environments) buildImage(ctx context.Context, dir, token, line string) error {
	all, err := e.kernels(ctx, dir+"/boot")
	if err != nil {
		return err
	}
	kernel := all[len(all)-1]
	esp, err := e.output(ctx, "bootctl", "--print-esp-path")
	if err != nil {
		return err
	}
	file := esp + imageDir + token + "-" + kernel + ".efi"
	if err := e.run(ctx, "ukify", "build", "--linux", dir+"/boot/vmlinuz-"+kernel, "--initrd",
		dir+"/boot/initrd.img-"+kernel, "--cmdline", line, "--os-release", "@"+dir+"/etc/os-release", "--uname", kernel,
		"--output", file+".part"); err != nil {
		return err
	}
	if err := e.run(ctx, "mv", "-f", file+".part", file); err != nil { // the loader reads .efi only
		return err
	}
	// A mirror has a second ESP, and this program if so.
	const folder, program = "/usr/local/sbin", "esp-sync"
	has, err := e.output(ctx, "find", folder, "-name", program)
	if err != nil || has == "" {
		return err
	}
	return e.run(ctx, folder+"/"+program)
}

// kernels are the releases of the kernels in a folder, the newest last. There is at least one.
func (e *Environments) kernels(ctx context.Context, folder string) (all []string, err error) {
	list, err := e.output(ctx, "ls", "-1v", folder) // -v sorts by version
	if err != nil {
		return nil, err
	}
	for name := range strings.Lines(list) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(name), "vmlinuz-"); ok {
			all = append(all, v)
		}
	}
	if all == nil {
		return nil, fault.New(fault.Invalid, "%s has no kernel", folder)
	}
	return all, nil
}

// mount shows the files of an environment that does not run. What an interrupted activation
// mounted is used again.
func (e *Environments) mount(ctx context.Context, dataset string) (dir string, release func() error, err error) {
	all, err := e.output(ctx, "findmnt", "-n", "-l", "-t", "zfs", "-o", "SOURCE,TARGET")
	if err != nil {
		return "", nil, err
	}
	for line := range strings.Lines(all) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == dataset && f[1] != mountDir {
			return f[1], func() error { return nil }, nil
		}
		if len(f) == 2 && f[1] == mountDir {
			if err := e.run(ctx, "umount", mountDir); err != nil {
				return "", nil, err
			}
		}
	}
	if err := e.run(ctx, "mkdir", "-p", mountDir); err != nil {
		return "", nil, err
	}
	if err := e.run(ctx, "mount", "-t", "zfs", "-o", "zfsutil", dataset, mountDir); err != nil {
		return "", nil, err
	}
	return mountDir, func() error { return e.run(context.WithoutCancel(ctx), "umount", mountDir) }, nil
}

func (e *Environments) output(ctx context.Context, argv ...string) (string, error) {
	out, err := conn.Output(ctx, e.conn, argv...)
	return strings.TrimSpace(string(out)), err
}

// write replaces a file in one step.
func (e *Environments) write(ctx context.Context, file, line string) error {
	c := conn.Command("install", "-m", "0644", "/dev/stdin", file+".part")
	c.Stdin = strings.NewReader(line + "\n")
	if _, err := conn.OutputOf(ctx, e.conn, c); err != nil {
		return err
	}
	return e.run(ctx, "mv", "-f", file+".part", file)
}

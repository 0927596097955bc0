package bootenv

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
)

// GRUB starts what its menu says first. All environments share /boot, with the menu and the
// kernels, and each may write the menu: update-grub reads its /etc/default/grub, and then files
// like grubChoice. So an activation writes this file into the environment that it activates and
// into the running one, and the menu of both starts the same.
const (
	grubMenu   = "/boot/grub/grub.cfg"
	grubChoice = "/etc/default/grub.d/bakeoff-env.cfg"
	grubRoot   = "root=ZFS="
)

// usesGRUB reports whether the menu of GRUB starts the running environment. A /boot that is a
// folder of an environment is not enough: GRUB reads that of one environment only.
func (e *Environments) usesGRUB(ctx context.Context) bool {
	n, err := e.find("")
	if err != nil || e.run(ctx, "mountpoint", "-q", "/boot") != nil {
		return false
	}
	menu, err := e.output(ctx, "cat", grubMenu)
	return err == nil && slices.Contains(strings.Fields(menu), grubRoot+n.Dataset)
}

// activateGRUB makes the menu start an environment, with the newest kernel that it has modules
// for. It can run again after an interruption.
func (e *Environments) activateGRUB(ctx context.Context, n *Environment, dir string) error {
	menu, err := e.output(ctx, "cat", grubMenu)
	if err != nil {
		return err
	}
	kernel, err := e.sharedKernel(ctx, n, dir)
	if err != nil {
		return err
	}
	entry, err := grubEntry(menu, kernel)
	if err != nil {
		return err
	}
	if err := e.choose(ctx, dir, n, newestEntry(entry, kernel)); err != nil {
		return err
	}
	if !n.Running {
		if err := e.choose(ctx, "", n, "GRUB_DEFAULT='"+entry+"'"); err != nil {
			return err
		}
	}
	if err := e.run(ctx, "update-grub"); err != nil {
		return err
	}
	menu, err = e.output(ctx, "cat", grubMenu)
	if err != nil {
		return err
	}
	if made, _ := grubEntry(menu, kernel); made != entry || !slices.Contains(strings.Fields(menu), grubRoot+n.Dataset) {
		return fault.WithFix(fault.New(fault.Lab, "the new %s does not start the kernel %s with %s%s", grubMenu, kernel,
			grubRoot, n.Dataset),
			"see what update-grub prints, and whether another file in /etc/default/grub.d sets GRUB_CMDLINE_LINUX")
	}
	return nil
}

// choose writes into the environment below dir which environment GRUB starts, and by which entry.
func (e *Environments) choose(ctx context.Context, dir string, n *Environment, entry string) error {
	if err := e.run(ctx, "mkdir", "-p", dir+path.Dir(grubChoice)); err != nil {
		return err
	}
	return e.write(ctx, dir+grubChoice, fmt.Sprintf("# Written by bakeoff install env activate: the boot environment "+
		"that GRUB starts.\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX %s%s\"\n%s", grubRoot, n.Dataset, entry))
}

// newestEntry are lines of the shell: an environment starts itself by the entry of the newest kernel
// that it has modules for. Kernels of other environments are in /boot, too.
func newestEntry(entry, kernel string) string {
	return fmt.Sprintf(`for kernel in $(ls -1v /boot | sed -n 's/^vmlinuz-//p'); do
	if [ -e "/usr/lib/modules/$kernel/modules.builtin" ]; then
		GRUB_DEFAULT="%s"
	fi
done`, strings.ReplaceAll(entry, "gnulinux-"+kernel+"-", "gnulinux-$kernel-"))
}

// sharedKernel is the newest kernel in /boot for which the environment below dir has modules.
func (e *Environments) sharedKernel(ctx context.Context, n *Environment, dir string) (string, error) {
	all, err := e.kernels(ctx, "/boot")
	if err != nil {
		return "", err
	}
	// A kernel has modules.builtin until its package goes.
	found, err := e.output(ctx, "find", dir+"/usr/lib/modules", "-mindepth", "2", "-maxdepth", "2", "-name",
		"modules.builtin")
	if err != nil {
		return "", err
	}
	var own []string
	for file := range strings.Lines(found) {
		own = append(own, path.Base(path.Dir(strings.TrimSpace(file))))
	}
	for _, kernel := range slices.Backward(all) {
		if slices.Contains(own, kernel) {
			return kernel, nil
		}
	}
	return "", fault.WithFix(fault.New(fault.Invalid, "the boot environment %s has modules for the kernels %q, but "+
		"/boot has other kernels: %q", n.Name, own, all), "install a kernel for which it has modules again")
}

var grubID = lazy.Compile(`'(gnulinux-advanced-[\w./:+~=@-]+)'`)

// grubEntry is the name of the menu's entry for a kernel, as GRUB_DEFAULT takes it.
func grubEntry(menu, kernel string) (string, error) {
	entry := regexp.MustCompile(`'(gnulinux-` + regexp.QuoteMeta(kernel) + `-advanced-[\w./:+~=@-]+)'`).
		FindStringSubmatch(menu)
	if entry == nil {
		return "", fault.WithFix(fault.New(fault.Invalid, "%s has no entry for the kernel %s", grubMenu, kernel),
			"run update-grub")
	}
	if above := grubID.FindStringSubmatch(menu); above != nil {
		return above[1] + ">" + entry[1], nil
	}
	return entry[1], nil // the menu is flat
}

package spec

import (
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/yamltree"
)

// systemNames are the accounts of the base system of each recipe, and its groups in Linux. For such an account, the
// plan would change the password of the system's account; and useradd of Linux, which makes a group for each user,
// refuses the name of a group. Sources: base-files of Void, base-passwd of Debian with the accounts of packages that
// the recipe installs, etc/master.passwd of NetBSD.
var systemNames = map[string][]string{
	"void-zfs": strings.Fields(`adm audio bin cdrom daemon dialout disk floppy input kmem kvm lp mail network nobody
		nogroup optical plugdev scanner storage sys tape tty usbmon users utmp video wheel xbuilder`),
	"debian-zfs": strings.Fields(`adm audio backup bin cdrom daemon dialout dip disk fax floppy games irc kmem list lp
		mail man messagebus news nobody nogroup operator plugdev polkitd proxy sasl shadow src sshd staff sudo sync sys
		tape tty users utmp uucp video voice www-data`),
	"netbsd-zfs": strings.Fields(`bin daemon games named news nobody ntpd operator postfix sshd toor uucp`),
}

// packageGroups are groups that packages of the base system make. Source: udev.postinst of Debian 12 and 13.
var packageGroups = map[string][]string{"debian-zfs": {"input", "kvm", "render", "sgx"}}

// ofSystem reports whether a name belongs to the system that a recipe installs. Names that begin with _ are those
// of services.
func ofSystem(recipe, name string) bool {
	return name == "root" || strings.HasPrefix(name, "_") || strings.HasPrefix(name, "systemd-") ||
		slices.Contains(systemNames[recipe], name) || slices.Contains(packageGroups[recipe], name)
}

// administrators are the groups whose members may become root.
var administrators = map[string]string{"void-zfs": "wheel", "debian-zfs": "sudo", "netbsd-zfs": "wheel"}

// HasGroup reports whether the base system of a recipe for Linux surely has a group.
func HasGroup(recipe, name string) bool {
	accounts := []string{"messagebus", "nobody", "polkitd", "sshd", "sync"} // without a group of this name
	return name == "root" || slices.Contains(systemNames[recipe], name) && !slices.Contains(accounts, name)
}

// users checks the accounts besides root.
func (c checker) users(s *Spec, passwords bool) {
	seen := map[string]bool{}
	for i, u := range s.Users {
		n := strconv.Itoa(i)
		name := []string{"users", n, "name"}
		c.want(u.Name, user, "write a name of lower case letters", name...)
		if passwords {
			c.secret(u.Password, "users", n, "password")
		} else if u.Password != "" {
			c.Add(c.at([]string{"users", n, "password"}), "use ssh_keys", "NetBSD gets no passwords with this recipe")
		}
		c.keys(u.SSHKeys, "users", n, "ssh_keys")
		for j, g := range u.Groups {
			at := []string{"users", n, "groups", strconv.Itoa(j)}
			c.want(g, user, "write the name of a group", at...)
			right := administrators[s.Recipe]
			switch {
			case g == u.Name || seen[g]:
			case slices.ContainsFunc(s.Users[i+1:], func(later User) bool { return later.Name == g }):
				c.Add(c.at(at), "write the user "+g+" before this one", "the group %s does not exist yet", yamltree.Show(g))
			case right != "" && g != right && (g == "sudo" || g == "wheel"):
				c.Add(c.at(at), "write "+right, "members of %s may not become root", yamltree.Show(g))
			}
		}
		switch {
		case seen[u.Name]:
			c.Add(c.at(name), "choose another name", "user %s exists already", yamltree.Show(u.Name))
		case ofSystem(s.Recipe, u.Name):
			c.Add(c.at(name), "choose another name", "%s is the name of an account or a group of the system",
				yamltree.Show(u.Name))
		}
		seen[u.Name] = true
	}
}

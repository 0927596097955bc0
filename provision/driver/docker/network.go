package docker

import (
	"context"
	"errors"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/engine"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
)

// namespaceFile is the file beside the socket of a private engine that names the network
// namespace in which the engine runs. The machine's engine runs in the host's own.
const namespaceFile = "netns"

// namespace is the network namespace of the engine; "" is the host's own.
func (c *container) namespace(ctx context.Context) (string, error) {
	if !c.options.private {
		return "", nil
	}
	return driver.Remember(c.Env.Spec.Memo, "docker namespace "+c.options.socket, func() (string, error) {
		u, err := url.Parse(c.options.socket)
		if err != nil {
			return "", fault.New(fault.Lab, "docker: %w", err)
		}
		b, err := conn.FilesOf(c.Host).ReadFile(ctx, path.Join(path.Dir(u.Path), namespaceFile))
		return string(b), err
	})
}

// attach links the network of the engine to the experiment's, for this environment's address.
func (c *container) attach(ctx context.Context) error {
	if c.Options.Network == engine.Experiment {
		return nil
	}
	in, err := c.namespace(ctx)
	if err != nil {
		return err
	}
	return netns.AttachShared(ctx, c.Host, *c.Env.Spec.Network, c.Env.Spec.Label, in)
}

// join connects the running container: to the experiment's network, or on Docker's own.
func (c *container) join(ctx context.Context) error {
	if c.Options.Network == engine.Experiment {
		return c.Env.Join(ctx, c.PID)
	}
	if err := c.Reach(ctx); err != nil || c.Options.Network != engine.Bridge {
		return err
	}
	i, err := c.info(ctx)
	if err != nil {
		return err
	}
	if n := major(i.ServerVersion); n >= closed {
		return fault.WithFix(fault.New(fault.Unsupported, "Docker %s drops packets from other machines to ports that it "+
			"does not publish", i.ServerVersion), "set network: published")
	}
	in, err := c.namespace(ctx)
	if err != nil {
		return err
	}
	argv := slices.Concat([]string{"iptables", "--wait", "--insert", userChain}, rule(c.Env.Spec.Label,
		c.Env.Info().Addr.String()))
	_, err = conn.Output(ctx, netns.Within(c.Host, in), argv...)
	return fault.Op("docker: open the way to the container", err)
}

// closed is the version of Docker that drops packets to unpublished ports before any rule of
// the administrator sees them: release notes of 28.0.
const closed = 28

// userChain is the chain for rules of the administrator, which Docker does not change (Docker's
// manual, "Packet filtering and firewalls").
const userChain = "DOCKER-USER"

// rule are the arguments of a rule that lets packets to a container pass. By default Docker drops
// them, because it publishes no port.
func rule(label, addr string) []string {
	return []string{"--destination", addr, "--match", "comment", "--comment", engine.Label + "-" + label, "--jump",
		"ACCEPT"}
}

// major is the first number of a version; 0 if it has none.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

// close removes the container and what attach and join have made. The namespace of a private
// engine is removed with it.
func (c *container) close(ctx context.Context) error {
	err := c.Remove(ctx)
	if c.Options.Network == engine.Experiment {
		return err
	}
	if !c.options.private {
		_, rerr := reapNetwork(ctx, c.Host, c.Env.Spec.Label, false)
		return errors.Join(err, rerr)
	}
	in, nerr := c.namespace(ctx)
	if nerr == nil {
		nerr = netns.DetachShared(ctx, c.Host, c.Env.Spec.Label, in)
	}
	return errors.Join(err, nerr)
}

// reapNetwork removes the link of an environment in the host's own namespace, and its rules in
// the packet filter, and returns what it found.
func reapNetwork(ctx context.Context, host conn.Conn, label string, dryRun bool) (found []string, err error) {
	have, err := netns.HasLink(ctx, host, "", netns.Inner(label))
	if err != nil {
		return nil, err
	}
	if have {
		found = append(found, "network interface "+netns.Inner(label))
		if !dryRun {
			err = netns.DetachShared(ctx, host, label, "")
		}
	}
	// Without iptables, or without Docker's chain, there is no rule.
	said, ierr := conn.Output(ctx, host, "iptables", "--wait", "--list-rules", userChain)
	if ierr != nil {
		return found, errors.Join(err, ctx.Err())
	}
	for _, words := range rulesOf(string(said), label) {
		found = append(found, "packet filter rule "+strings.Join(words, " "))
		if !dryRun {
			_, derr := conn.Output(ctx, host, slices.Concat([]string{"iptables", "--wait", "--delete"}, words)...)
			err = errors.Join(err, derr)
		}
	}
	return found, err
}

// rulesOf returns the arguments of the rules of an environment, from what iptables lists:
// "-A DOCKER-USER -d 172.17.0.2/32 -m comment --comment bakeoff-x -j ACCEPT".
func rulesOf(listed, label string) [][]string {
	var out [][]string
	for line := range strings.Lines(listed) {
		words := strings.Fields(line)
		i := slices.Index(words, "--comment")
		if len(words) > 2 && words[0] == "-A" && i > 0 && i+1 < len(words) &&
			strings.Trim(words[i+1], `"`) == engine.Label+"-"+label {
			words[i+1] = engine.Label + "-" + label
			out = append(out, words[1:])
		}
	}
	return out
}

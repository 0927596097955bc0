package network

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Docker and ufw make iptables drop what the machine forwards. No rule of another table can
// permit a packet that one table drops, so a network with NAT needs rules there.

// openForward permits what the network forwards, if iptables drops it. The table of leadOut
// still refuses connections to the guests. Its caller holds the lock.
func (n *Network) openForward(ctx context.Context) error {
	rules, err := n.iptables(ctx)
	if err != nil || !slices.Contains(rules, "-P FORWARD DROP") || len(n.forwardRules(rules)) == len(n.ways()) {
		return err
	}
	if err := n.closeForward(ctx); err != nil { // a killed command may have made one of them
		return err
	}
	chain := "FORWARD"
	if slices.Contains(rules, "-N DOCKER-USER") { // its own rules come after those of this chain
		chain = "DOCKER-USER"
	}
	for _, way := range n.ways() {
		argv := append([]string{"iptables", "--wait", "--insert", chain}, way...)
		if _, err := conn.Output(ctx, n.store.Host, argv...); err != nil {
			return fault.Op("permit the forwarded packets of the network", err)
		}
	}
	return nil
}

// ways are the arguments of the rules.
func (n *Network) ways() (out [][]string) {
	for _, option := range []string{"--in-interface", "--out-interface"} {
		out = append(out, []string{option, n.hostLink(), "--match", "comment", "--comment", n.hostTable(),
			"--jump", "ACCEPT"})
	}
	return out
}

// closeForward removes these rules.
func (n *Network) closeForward(ctx context.Context) error {
	rules, err := n.iptables(ctx)
	for _, words := range n.forwardRules(rules) {
		_, derr := conn.Output(ctx, n.store.Host, slices.Concat([]string{"iptables", "--wait", "--delete"}, words)...)
		err = errors.Join(err, derr)
	}
	return err
}

// iptables lists all rules; none without the program, or if the kernel lacks what it needs.
func (n *Network) iptables(ctx context.Context) ([]string, error) {
	if _, err := exec.LookPath("iptables"); err != nil {
		return nil, nil
	}
	said, err := conn.Output(ctx, n.store.Host, "iptables", "--wait", "--list-rules")
	if err != nil {
		return nil, ctx.Err()
	}
	return strings.Split(string(said), "\n"), nil
}

// forwardRules are the arguments of those rules of a list that belong to the network:
// "-A FORWARD -i bonx -m comment --comment bakeoff_x -j ACCEPT".
func (n *Network) forwardRules(rules []string) (out [][]string) {
	for _, r := range rules {
		words := strings.Fields(strings.ReplaceAll(r, `"`, ""))
		i := slices.Index(words, "--comment")
		if len(words) > 1 && words[0] == "-A" && i > 0 && i+1 < len(words) && words[i+1] == n.hostTable() {
			out = append(out, words[1:])
		}
	}
	return out
}

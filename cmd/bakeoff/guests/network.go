package guests

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/vm/network"
)

// vmNetworksSchema is the schema of what the commands of networks print with --json.
const vmNetworksSchema = "bakeoff/vm-networks/v1"

// networkRow is a network with what is known of it now.
type networkRow struct {
	*network.Network
	State  string   `json:"state"`
	Guests []string `json:"guests"`
}

// networkColumns are the columns of vm network list.
var networkColumns = []cli.Column[networkRow]{
	{Name: "name", Of: func(n networkRow) string { return n.Name }},
	{Name: "subnet", Of: func(n networkRow) string { return strings.Join(n.Subnets, ",") }},
	{Name: "nat", Of: func(n networkRow) string { return strconv.FormatBool(n.NAT) }},
	{Name: "uplink", Of: func(n networkRow) string { return n.Uplink }},
	{Name: "vlan", Of: func(n networkRow) string { return numberOrNone(n.VLAN) }},
	{Name: "mtu", Of: func(n networkRow) string { return numberOrNone(n.MTU) }},
	{Name: "state", Of: func(n networkRow) string { return n.State }},
	{Name: "guests", Of: func(n networkRow) string { return strings.Join(n.Guests, ",") }},
	{Name: "namespace", Of: func(n networkRow) string { return n.Namespace() }},
}

func (a *commands) vmNetwork() *cobra.Command {
	c := &cobra.Command{
		Use:   "network",
		Short: "Create, list and delete networks of guests",
		Long: `A network is a bridge, on Linux in its own network namespace. A NIC joins the network that
its property nic_tag names. Guests in one network reach each other by address and by alias.
They reach nothing else, unless the network has an uplink.`,
		Example: `  sudo bakeoff vm network create backend --subnet 10.0.0.0/24
  sudo bakeoff vm network create front --subnet 10.0.1.0/24 --nat --uplink eth0
  bakeoff vm network list
  sudo bakeoff vm network delete backend`,
	}
	for _, sub := range []*cobra.Command{a.vmNetworkCreate(), a.vmNetworkList(), a.vmNetworkDelete()} {
		c.AddCommand(guestExit(sub))
	}
	cli.Group(c, "command", "create, list or delete")
	return c
}

func (a *commands) vmNetworkCreate() *cobra.Command {
	var d manifest.Network
	var asJSON bool
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a network of guests",
		Long: `create makes a network; a guest joins the network with a NIC whose property nic_tag is NAME.
This machine gets an address in each --subnet: the address in the argument, or the first one
of the subnet. At this address, DHCP and DNS servers answer the guests.

With --nat, guests reach other networks through the interface --uplink, and use the address
of this interface. bakeoff then turns on forwarding for the interface, and adds an nft table
to this machine. Without --nat, the interface --uplink itself joins the network; it must
have no address. With --vlan, only frames with that tag belong to the network, and the
interface stays unchanged.

Without --uplink, create does not change this machine's own network.

On FreeBSD, a network is a bridge, and pf separates the guests from other networks. If this
machine lacks a setting for this separation, create names the setting.`,
		Example: `  sudo bakeoff vm network create backend --subnet 10.0.0.0/24
  sudo bakeoff vm network create front --subnet 10.0.1.254/24 --subnet fd00:1::/64
  sudo bakeoff vm network create out --subnet 10.0.2.0/24 --nat --uplink eth0
  sudo bakeoff vm network create lab --uplink eth1
  sudo bakeoff vm network create admin --uplink eth1 --vlan 7`,
		Args: cli.Between(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			d.Name = args[0]
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			if err := a.createNetwork(ctx, d); err != nil {
				return a.problemsFirst(err, asJSON)
			}
			if asJSON {
				return a.printNetworks(ctx, func(n networkRow) bool { return n.Name == d.Name })
			}
			return nil
		},
	}
	c.Flags().StringArrayVar(&d.Subnets, "subnet", nil, "addresses of the network: one `PREFIX` of IPv4 and one of IPv6")
	c.Flags().BoolVar(&d.NAT, "nat", false, "connect guests to other networks, with the address of --uplink")
	c.Flags().StringVar(&d.Uplink, "uplink", "", "`interface` of this machine that connects the network to others")
	c.Flags().IntVar(&d.VLAN, "vlan", 0, "VLAN tag of the network at --uplink")
	c.Flags().IntVar(&d.MTU, "mtu", 0, "largest packet in bytes; the default is 1500")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (a *commands) createNetwork(ctx context.Context, d manifest.Network) error {
	s, err := a.guests()
	if err != nil {
		return err
	}
	n, err := s.Networks().Create(ctx, d)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "Successfully created network %s\n", n.Name)
	return a.noteObstacles(ctx, n)
}

// noteObstacles names what keeps the guests of a network from others.
func (a *commands) noteObstacles(ctx context.Context, n *network.Network) error {
	all, err := n.Obstacles(ctx)
	for _, o := range all {
		fmt.Fprintf(a.Err, "warning: chain %s of the nft table %s %s drops forwarded packets that no rule accepts. Guests "+
			"of network %s reach nothing outside until you run\n", o.Chain, o.Family, o.Table, n.Name)
		for _, fix := range o.Fix {
			fmt.Fprintf(a.Err, "  sudo %s\n", fix)
		}
	}
	return err
}

// networks are all networks with what is known of them now.
func (a *commands) networks(ctx context.Context) (out []networkRow, err error) {
	s, err := a.guests()
	if err != nil {
		return nil, err
	}
	all, err := s.Networks().List()
	for _, n := range all {
		row, err := rowOf(ctx, s, n)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, err
}

// rowOf is a network with what is known of it now.
func rowOf(ctx context.Context, s *vm.Store, n *network.Network) (row networkRow, err error) {
	row.Network = n
	var guests []string
	if row.State, err = n.State(ctx); err == nil {
		guests, err = s.MembersOf(n.Name)
	}
	row.Guests = append([]string{}, guests...)
	return row, err
}

func (a *commands) printNetworks(ctx context.Context, want func(networkRow) bool) error {
	all, err := a.networks(ctx)
	if err != nil {
		return err
	}
	out := []networkRow{}
	for _, n := range all {
		if want(n) {
			out = append(out, n)
		}
	}
	return a.PrintJSON(map[string]any{"schema": vmNetworksSchema, "networks": out})
}

func (a *commands) vmNetworkList() *cobra.Command {
	var l cli.Listing
	c := &cobra.Command{
		Use:     "list [COLUMN=VALUE...]",
		Short:   "List the networks of guests",
		Example: "  bakeoff vm network list\n  bakeoff vm network list -H -o name,guests state=up",
		RunE: func(c *cobra.Command, args []string) error {
			all, err := a.networks(c.Context())
			if err != nil {
				return err
			}
			if all, err = cli.FilterRows(all, networkColumns, args); err != nil {
				return err
			}
			if l.AsJSON {
				return a.PrintJSON(map[string]any{"schema": vmNetworksSchema, "networks": append([]networkRow{}, all...)})
			}
			return cli.PrintRows(a.Streams, &l, all, networkColumns)
		},
	}
	l.AddFlags(c, "name,subnet,nat,uplink,vlan,state,guests", cli.ColumnNames(networkColumns))
	return c
}

func (a *commands) vmNetworkDelete() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a network without guests",
		Long:    "delete removes a network, and returns its uplink to this machine. No guest may have a NIC in the network.",
		Example: "  sudo bakeoff vm network delete backend",
		Args:    cli.Between(1, 1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.guests()
			if err != nil {
				return err
			}
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			if err := s.Networks().Sweep(ctx); err != nil {
				return err
			}
			n, err := s.Networks().Find(args[0])
			if err != nil {
				return err
			}
			var row networkRow
			if asJSON {
				if row, err = rowOf(ctx, s, n); err != nil {
					return err
				}
			}
			err = n.Delete(ctx, func() ([]string, error) { return s.MembersOf(n.Name) })
			if err != nil || !asJSON {
				return err
			}
			return a.PrintJSON(map[string]any{"schema": vmNetworksSchema, "networks": []networkRow{row}})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the network as it was, as one JSON object")
	return c
}

// networkStep is what apply does with a network.
type networkStep struct {
	Name   string `json:"name"`
	Create bool   `json:"create"`
	want   manifest.Network
}

func (n networkStep) print(a *commands) {
	if n.Create {
		fmt.Fprintf(a.Err, "network %s: create\n", n.Name)
	} else {
		fmt.Fprintf(a.Err, "network %s: no change\n", n.Name)
	}
}

// planNetwork finds what differs between a description and a network. A network does not
// change: guests depend on it.
func (a *commands) planNetwork(s *vm.Store, file string, d manifest.Network) (networkStep, error) {
	step := networkStep{Name: d.Name, want: d}
	n, err := s.Networks().Find(d.Name)
	if fault.Is(err, fault.NotFound) {
		step.Create = true
		return step, nil
	}
	if err != nil {
		return step, err
	}
	if have, want := fmt.Sprintf("%+v", n.Network), fmt.Sprintf("%+v", d); have != want {
		return step, fault.Wrap(fault.Invalid, "", manifest.Problems{{File: file, Path: "network", Value: d.Name,
			Reason:  fmt.Sprintf("the network exists with other properties: it has %s, but the file says %s", have, want),
			Allowed: "delete the network and its guests first, or change the file"}})
	}
	return step, nil
}

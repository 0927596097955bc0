package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fakeVmadm is a vmadm for tests: a script puts it into PATH as vmadm. Its guests are in the
// file VMADM_STATE, and the arguments of each call are in the file of that name with .calls.
// Like vmadm, it takes whole UUIDs only, writes only data to standard output, drops unknown
// properties on create, and says "Successfully updated" also if nothing changed.
func fakeVmadm() {
	z := zones{file: os.Getenv("VMADM_STATE"), all: map[string]map[string]any{}}
	if text, err := os.ReadFile(z.file); err == nil {
		must(json.Unmarshal(text, &z.all))
	}
	calls, err := os.OpenFile(z.file+".calls", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	fmt.Fprintln(calls, strings.Join(os.Args[1:], " "))
	must(calls.Close())
	err = z.run(os.Args[1:])
	text, merr := json.Marshal(z.all)
	must(errors.Join(merr, os.WriteFile(z.file, text, 0o600)))
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "Invalid command:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

type usageError string

func (u usageError) Error() string { return string(u) }

// zones are the guests of a fake SmartOS, by UUID.
type zones struct {
	file string
	all  map[string]map[string]any
}

var (
	wholeUUID    = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	snapshotName = regexp.MustCompile(`^[A-Za-z0-9_.:%-]{1,64}$`)
	zoneBrands   = []string{"joyent", "lx", "kvm", "bhyve"}
	zoneLists    = []string{"uuid", "type", "ram", "state", "alias", "brand", "image_uuid"}
	zoneKnown    = []string{"uuid", "brand", "alias", "hostname", "autoboot", "ram", "image_uuid", "nics", "disks",
		"max_physical_memory", "quota", "tags", "set_tags", "remove_tags", "customer_metadata", "vcpus"}
)

func (z zones) run(argv []string) error {
	if len(argv) == 0 {
		return usageError("no command")
	}
	verb, args := argv[0], argv[1:]
	switch verb {
	case "list":
		return z.list(args)
	case "lookup":
		return z.lookup(args)
	case "create":
		m, err := zonePayload()
		if err != nil {
			return err
		}
		return z.create(m)
	case "validate":
		return validateZone(args)
	case "events":
		fmt.Println("[2026-01-01T00:00:00.000Z] create")
		return nil
	case "receive":
		m, err := zonePayload()
		if err == nil {
			z.all[m["uuid"].(string)] = m
			fmt.Fprintln(os.Stderr, "Successfully received VM")
		}
		return err
	case "kill":
		if len(args) == 3 && args[0] == "-s" {
			args = append(args[2:], args[1])
		}
	}
	if len(args) == 0 || !wholeUUID.MatchString(args[0]) {
		return usageError(verb + " needs a UUID")
	}
	g := z.all[args[0]]
	if g == nil {
		return errors.New("Requested unique lookup but found 0 results.")
	}
	return z.one(verb, g, args[1:])
}

// one is a command for one guest.
func (z zones) one(verb string, g map[string]any, args []string) error {
	running, done := g["state"] == "running", "Successfully completed "+verb+" for VM"
	switch verb {
	case "get", "send":
		text, err := json.Marshal(g)
		if err != nil {
			return err
		}
		if verb == "send" {
			g["state"] = "stopped"
		}
		fmt.Println(string(text))
		if verb == "get" {
			return nil
		}
	case "start":
		g["state"], g["autoboot"] = "running", true
	case "stop":
		g["state"], g["autoboot"] = "stopped", false
	case "reboot", "console", "kill", "sysrq", "info":
		if !running {
			return fmt.Errorf("Unable to %s: VM is not running", verb)
		}
		switch verb {
		case "info":
			if g["brand"] != "kvm" && g["brand"] != "bhyve" {
				return fmt.Errorf("Command not supported for brand %s", g["brand"])
			}
			fmt.Printf(`{"kinds":%q}`+"\n", strings.Join(args, " "))
			return nil
		case "console":
			_, err := io.Copy(os.Stdout, os.Stdin)
			return err
		}
	case "delete":
		delete(z.all, g["uuid"].(string))
	case "update":
		m, err := zonePayload()
		if err != nil {
			return err
		}
		take(g, m)
		if tags, ok := m["set_tags"].(map[string]any); ok {
			maps.Copy(g["tags"].(map[string]any), tags)
		}
		g["last_modified"] = time.Now().Format(time.RFC3339Nano)
		done = "Successfully updated VM"
	case "reprovision":
		m, err := zonePayload()
		if err != nil || m["image_uuid"] == nil {
			return errors.New("Invalid payload: image_uuid is missing")
		}
		g["image_uuid"], g["state"] = m["image_uuid"], "running"
	case "create-snapshot", "rollback-snapshot", "delete-snapshot":
		if len(args) != 1 || !snapshotName.MatchString(args[0]) {
			return errors.New("Invalid snapshot name")
		}
		has, _ := g["snapshots"].(map[string]any)
		if has == nil {
			has = map[string]any{}
			g["snapshots"] = has
		}
		if (has[args[0]] != nil) == (verb == "create-snapshot") {
			return fmt.Errorf("%s: there is, or is no, snapshot %s", verb, args[0])
		}
		switch verb {
		case "create-snapshot":
			has[args[0]] = true
		case "delete-snapshot":
			delete(has, args[0])
		}
	default:
		return usageError(verb)
	}
	fmt.Fprintln(os.Stderr, done, g["uuid"])
	return nil
}

func zonePayload() (m map[string]any, err error) {
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// take sets the properties of m that vmadm knows. It drops the others, and does not say so.
func take(g, m map[string]any) {
	for name, v := range m {
		n, err := strconv.Atoi(fmt.Sprint(v))
		switch {
		case !slices.Contains(zoneKnown, name) || strings.HasPrefix(name, "set_"):
		case err == nil && slices.Contains([]string{"ram", "quota", "vcpus"}, name): // digits may be a string
			g[name] = n
		default:
			g[name] = v
		}
	}
}

func (z zones) create(m map[string]any) error {
	g := map[string]any{"state": "running", "tags": map[string]any{}}
	take(g, m)
	uuid, _ := g["uuid"].(string)
	if !wholeUUID.MatchString(uuid) || z.all[uuid] != nil {
		return errors.New("Invalid value(s) for: uuid")
	}
	if g["autoboot"] == false {
		g["state"] = "stopped"
	}
	g["brand"] = cmp.Or(m["brand"], any("joyent"))
	z.all[uuid] = g
	fmt.Fprintln(os.Stderr, "Successfully created VM", uuid)
	return nil
}

// validateZone is validate create, or validate update BRAND.
func validateZone(args []string) error {
	m, err := zonePayload()
	if err != nil {
		return err
	}
	out := map[string]any{}
	var unknown, values, missing []string
	switch {
	case len(args) == 1 && args[0] == "create":
		if brand, _ := m["brand"].(string); !slices.Contains(zoneBrands, brand) {
			out["bad_brand"] = brand
		}
		if m["image_uuid"] == nil && m["brand"] == "joyent" {
			missing = append(missing, "image_uuid")
		}
	case len(args) != 2 || args[0] != "update" || !slices.Contains(zoneBrands, args[1]):
		return usageError("validate create|update BRAND")
	}
	for name, v := range m {
		if !slices.Contains(zoneKnown, name) {
			unknown = append(unknown, name)
		} else if n, err := strconv.Atoi(fmt.Sprint(v)); name == "ram" && (err != nil || n < 1) {
			values = append(values, name)
		}
	}
	for name, list := range map[string][]string{"bad_properties": unknown, "bad_values": values,
		"missing_properties": missing} {
		if len(list) > 0 {
			slices.Sort(list)
			out[name] = list
		}
	}
	if len(out) == 0 {
		fmt.Fprintf(os.Stderr, "VALID '%s' payload.\n", args[0])
		return nil
	}
	text, err := json.Marshal(out)
	return errors.Join(err, errors.New(string(text)))
}

// matching are the guests for which all filters hold, by their UUIDs.
func (z zones) matching(filters []string) (out []map[string]any, err error) {
	for _, uuid := range slices.Sorted(maps.Keys(z.all)) {
		out = append(out, z.all[uuid])
	}
	for _, f := range filters {
		key, value, ok := strings.Cut(f, "=")
		if !ok || !slices.Contains(zoneLists, key) {
			return nil, fmt.Errorf("Invalid lookup key: %q", f)
		}
		out = slices.DeleteFunc(out, func(g map[string]any) bool { return field(g, key) != value })
	}
	return out, nil
}

func field(g map[string]any, name string) string {
	if name == "type" {
		return map[string]string{"joyent": "OS", "lx": "LX", "kvm": "KVM", "bhyve": "BHYV"}[g["brand"].(string)]
	}
	if g[name] == nil {
		return "-"
	}
	return fmt.Sprint(g[name])
}

// zoneOptions cuts the flags off; a letter in valued takes a value.
func zoneOptions(args []string, flags, valued string) (set map[byte]string, rest []string, err error) {
	set = map[byte]string{}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if len(args[0]) != 2 || !strings.Contains(flags, args[0][1:]) {
			return nil, nil, usageError(args[0])
		}
		k := args[0][1]
		args = args[1:]
		if set[k] = "yes"; strings.IndexByte(valued, k) >= 0 {
			if len(args) == 0 {
				return nil, nil, usageError("no value")
			}
			set[k], args = args[0], args[1:]
		}
	}
	return set, args, nil
}

func (z zones) list(args []string) error {
	set, filters, err := zoneOptions(args, "pHos", "os")
	if err != nil {
		return err
	}
	all, err := z.matching(filters)
	if err != nil {
		return err
	}
	columns := strings.Split(cmp.Or(set['o'], "uuid,type,ram,state,alias"), ",")
	for _, name := range columns {
		if !slices.Contains(zoneLists, name) {
			return fmt.Errorf("Invalid field: %s", name)
		}
	}
	between := "  "
	if set['p'] != "" {
		between = ":"
	} else if set['H'] == "" {
		fmt.Println(strings.ToUpper(strings.Join(columns, between)))
	}
	for _, g := range all {
		var cells []string
		for _, name := range columns {
			cells = append(cells, field(g, name))
		}
		fmt.Println(strings.Join(cells, between))
	}
	return nil
}

func (z zones) lookup(args []string) error {
	set, filters, err := zoneOptions(args, "j1o", "o")
	if err == nil && set['o'] != "" && set['j'] == "" {
		err = usageError("-o needs -j")
	}
	if err != nil {
		return err
	}
	all, err := z.matching(filters)
	if err != nil {
		return err
	}
	if set['1'] != "" && len(all) != 1 {
		return fmt.Errorf("Requested unique lookup but found %d results.", len(all))
	}
	if set['j'] == "" {
		for _, g := range all {
			fmt.Println(g["uuid"])
		}
		return nil
	}
	if set['o'] != "" {
		for i, g := range all {
			all[i] = map[string]any{}
			for name := range strings.SplitSeq(set['o'], ",") {
				if g[name] != nil {
					all[i][name] = g[name]
				}
			}
		}
	}
	text, err := json.Marshal(append([]map[string]any{}, all...))
	fmt.Println(string(text))
	return err
}

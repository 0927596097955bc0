package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"bakeoff/prepare/install/installed"
)

// TestUnknownFacts makes each fact of systems without a fault unknown, one after the other, and checks that
// nothing is found. It leaves out the properties of pools and datasets, and the content of images.
func TestUnknownFacts(t *testing.T) {
	for name, m := range map[string]*machine{
		"void mirror": mirrorMachine(), "debian 13": debianMachine(), "debian 12": oldDebianMachine(),
		"signed, with GRUB": signedMachine(), "hibernation from a unified image": sleepingMachine(),
		"plain swap": resumeBy(plainSwapMachine(), "UUID="+swapUUID),
	} {
		text, err := json.Marshal(m.System)
		if err != nil {
			t.Fatal(err)
		}
		var facts map[string]any
		if err := json.Unmarshal(text, &facts); err != nil {
			t.Fatal(err)
		}
		eachFact(facts, "", func(at string) {
			switch strings.Fields(at)[0] {
			case "schema", "zfs", "zpool", "initramfs":
				return
			}
			text, err := json.Marshal(facts)
			if err != nil {
				t.Fatal(err)
			}
			s, err := installed.Read("facts", bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range Check(s, m.files) {
				t.Errorf("%s without%s: %s at %s: %s", name, at, f.Name, f.Where, f.Why)
			}
		})
	}
}

// eachFact calls visit for each value in facts while it is null.
func eachFact(facts any, at string, visit func(at string)) {
	try := func(key string, v any, set func(any)) {
		set(nil)
		visit(at + " " + key)
		set(v)
		eachFact(v, at+" "+key, visit)
	}
	switch facts := facts.(type) {
	case map[string]any:
		for k, v := range facts {
			try(k, v, func(v any) { facts[k] = v })
		}
	case []any:
		for i, v := range facts {
			if _, ok := v.(string); !ok {
				try(fmt.Sprint(i), v, func(v any) { facts[i] = v })
			}
		}
	}
}

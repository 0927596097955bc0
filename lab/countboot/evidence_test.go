package countboot

import (
	"reflect"
	"testing"

	"bakeoff/base/bootmodel"
)

func TestAdvised(t *testing.T) {
	knobs := []Knob{{Name: "tests", Append: []string{"cryptomgr.notests"}}, {Name: "other", Append: []string{"x=1"}}}
	got := advised(knobs, []bootmodel.Advice{{Name: "self-test", Text: "57 %.", Argument: "cryptomgr.notests"},
		{Name: "delay", Text: "No argument."},
		{Name: "absent-hardware", Text: "3 %.", Knob: "Leave them out.", Argument: "initcall_blacklist=a,b"}})
	want := []Knob{{Name: "tests", Append: []string{"cryptomgr.notests"}, Evidence: "57 %."}, knobs[1],
		{Name: "absent-hardware", Why: "Leave them out.", Append: []string{"initcall_blacklist=a,b"}, Evidence: "3 %."}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if knobs[0].Evidence != "" {
		t.Error("the list of knobs was changed")
	}
	if got := withEvidence(knobs, Boot{Console: []byte("no kernel log")}); !reflect.DeepEqual(got, knobs) {
		t.Errorf("without evidence: %+v", got)
	}
}

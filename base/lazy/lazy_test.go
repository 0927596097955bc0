package lazy

import "testing"

func TestAnExpressionIsCompiledAtItsFirstUse(t *testing.T) {
	defer func(old bool) { inTest = old }(inTest)
	inTest = false
	r := Compile(`^a(b+)$`)
	if got := r.FindStringSubmatch("abb"); len(got) != 2 || got[1] != "bb" || r.String() != `^a(b+)$` {
		t.Errorf("%q of %s", got, r)
	}
	wrong := Compile("(")
	if !panics(func() { wrong.MatchString("") }) {
		t.Error("the use of a wrong expression does not panic")
	}
}

func TestATestFindsAWrongExpression(t *testing.T) {
	if !panics(func() { Compile("(") }) {
		t.Error("Compile in a test does not panic")
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

"""The custom tags: reference, setattribute, q_init."""
# ruff: noqa: E501  (XML in one piece)

import mujoco
import pytest
from lxml import etree

from tests.mjcf.urdfs import CONFIG, ROBOT, fragment
from xbot2_fast.mjcf import MjcfGenerator, ModelError

Q_INIT = '<q_init><joint name="fl_hip" value="0.15" /><joint name="fl_knee" value="-0.4" /></q_init>'
SITE = '<reference element="body" name="base_link"><site name="base_link" pos="0 0 0" size="0.01" /></reference>'
CHILDCLASS = (
    '<default><default class="robot_leg"><joint armature="0.02"/></default></default>'
    '<setattribute element="body" name="fl_hip_link"><attribute name="childclass" value="robot_leg" /></setattribute>'
)


@pytest.fixture
def generator(tmp_path):
    return MjcfGenerator("one_leg", ROBOT.read_bytes(), tmp_path / "out")


def final_tree(generator):
    return etree.fromstring(generator.generate_mjcf_string())


def body(tree, name):
    return tree.find(f".//body[@name='{name}']")


@pytest.mark.requirement("S0-087", "S0-089", "S0-090", "S0-091")
def test_reference_example_of_the_seed(generator):
    before = [etree.tostring(child) for child in body(final_tree(generator), "base_link")]
    generator.merge_xml(fragment(SITE))
    tree = final_tree(generator)
    base = body(tree, "base_link")
    assert tree.find("reference") is None
    names = [child.tag for child in base]
    assert names.index("site") == len(before)  # behind everything that was there
    assert dict(base[names.index("site")].attrib) == {"name": "base_link", "pos": "0 0 0", "size": "0.01"}
    assert [etree.tostring(child).split() for child in base if child.tag != "site"] == [text.split() for text in before]


@pytest.mark.requirement("S0-087")
def test_reference_appends_all_children_in_their_order(generator):
    sites = "".join(f'<site name="s{i}" size="0.01"/>' for i in range(5))
    generator.merge_xml(fragment(f'<reference element="body" name="fl_hip_link">{sites}</reference>'))
    assert [site.get("name") for site in body(final_tree(generator), "fl_hip_link").findall("site")] == [
        f"s{i}" for i in range(5)
    ]


@pytest.mark.requirement("S0-088", "S0-093")
def test_target_is_the_first_in_the_tree_and_several_are_reported(generator):
    generator.merge_xml(fragment('<worldbody><site name="a" size="0.1"/><body name="b"><geom name="x" size="1"/></body>'
                                 '</worldbody><sensor><framepos name="x" objtype="site" objname="a"/></sensor>'))  # fmt: skip
    generator.merge_xml(
        fragment('<setattribute element="geom" name="x"><attribute name="group" value="3"/></setattribute>')
    )
    assert final_tree(generator).find(".//geom[@name='x']").get("group") == "3"
    generator.merge_xml(
        fragment('<default class="main"><default class="c"/></default><keyframe><key name="k"/></keyframe>')
    )
    generator.merge_xml(fragment('<custom><text name="t" data="first"/><text name="t" data="second"/></custom>'))
    generator.merge_xml(
        fragment('<setattribute element="text" name="t"><attribute name="data" value="set"/></setattribute>')
    )
    generator._finalize_xml()
    texts = [text.get("data") for text in generator._tree.iterfind("custom/text")]
    assert texts == ["set", "second"]
    assert any("2 <text> are named 't'" in note.what for note in generator.report.of("noticed"))


@pytest.mark.requirement("S0-092", "S0-094", "S0-095", "S0-096")
def test_setattribute_example_of_the_seed(generator):
    before = body(final_tree(generator), "fl_hip_link")
    generator.merge_xml(fragment(CHILDCLASS))
    tree = final_tree(generator)
    hip = body(tree, "fl_hip_link")
    assert tree.find("setattribute") is None
    assert hip.get("childclass") == "robot_leg"
    assert hip.get("pos") == before.get("pos")
    assert [child.tag for child in hip] == [child.tag for child in before]
    model, _ = generator.create_mj_model_data()
    assert model.dof_armature[model.joint("fl_hip").dofadr[0]] == 0.02


@pytest.mark.requirement("S0-092", "S0-109")
def test_setattribute_sets_several_attributes_of_any_element(generator):
    generator.merge_xml(fragment('<actuator><position name="fl_hip" joint="fl_hip" kp="1"/></actuator>'))
    generator.merge_xml(fragment('<setattribute element="position" name="fl_hip"><attribute name="kp" value="7"/>'
                                 '<attribute name="ctrlrange" value="-1 1"/></setattribute>'))  # fmt: skip
    model, _ = generator.create_mj_model_data()
    assert model.actuator("fl_hip").gainprm[0] == 7
    assert tuple(model.actuator("fl_hip").ctrlrange) == (-1, 1)


@pytest.mark.requirement("S0-108")
def test_reference_reaches_any_element(generator):
    generator.merge_xml(fragment('<tendon><fixed name="t"><joint joint="fl_hip" coef="1"/></fixed></tendon>'))
    generator.merge_xml(fragment('<reference element="fixed" name="t"><joint joint="fl_knee" coef="2"/></reference>'))
    assert len(final_tree(generator).find("tendon/fixed")) == 2


@pytest.mark.requirement("S0-097", "S0-098", "S0-099", "S0-104")
def test_q_init_example_of_the_seed(generator):
    generator.merge_xml(fragment(Q_INIT))
    assert generator.q_init == {}
    assert "<q_init" not in generator.generate_mjcf_string()
    assert generator.q_init == {"fl_hip": 0.15, "fl_knee": -0.4}


@pytest.mark.requirement("S0-100", "S0-101", "S0-105")
def test_q_init_reaches_positions_and_controls(generator):
    generator.merge_xml(fragment(Q_INIT + '<actuator><position name="fl_hip" joint="fl_hip" kp="1"/>'
                                 '<position name="fl_knee" joint="fl_knee" kp="1"/></actuator>'))  # fmt: skip
    _, data = generator.create_mj_model_data()
    assert data.joint("fl_hip").qpos[0] == 0.15
    assert data.actuator("fl_hip").ctrl[0] == 0.15
    assert data.joint("fl_knee").qpos[0] == -0.4
    assert data.actuator("fl_knee").ctrl[0] == -0.4


@pytest.mark.requirement("S0-102", "S0-103")
def test_q_init_of_an_intvelocity_actuator_is_its_activation(generator):
    generator.merge_xml(fragment(Q_INIT + '<actuator><intvelocity name="fl_hip" joint="fl_hip" kp="4" kv="2" '
                                 'inheritrange="1"/></actuator>'))  # fmt: skip
    model, data = generator.create_mj_model_data()
    assert data.act[model.actuator("fl_hip").actadr[0]] == 0.15
    assert data.actuator("fl_hip").ctrl[0] == 0.0


def test_q_init_of_motors_and_undriven_joints_only_sets_positions(generator):
    generator.merge_xml(fragment(Q_INIT + '<actuator><motor name="fl_hip" joint="fl_hip"/></actuator>'))
    _, data = generator.create_mj_model_data()
    assert data.joint("fl_hip").qpos[0] == 0.15
    assert data.actuator("fl_hip").ctrl[0] == 0.0


@pytest.mark.parametrize("what", ["<freejoint name='free'/>", "<joint name='ball' type='ball'/>"])
def test_q_init_of_free_and_ball_joints_is_refused_by_name(generator, what):
    generator.merge_xml(fragment(f"<worldbody><body name='b'>{what}<geom size='0.1'/></body></worldbody>"))
    name = what.split("'")[1]
    generator.merge_xml(fragment(f'<q_init><joint name="{name}" value="1"/></q_init>'))
    with pytest.raises(ModelError, match=rf"no hinge or slide joint '{name}'"):
        generator.create_mj_model_data()


def test_the_last_value_of_a_joint_wins(generator):
    generator.merge_xml(
        fragment('<q_init><joint name="fl_hip" value="0.1"/><joint name="fl_hip" value="0.2"/></q_init>')
    )
    generator.generate_mjcf_string()
    assert generator.q_init == {"fl_hip": 0.2}


@pytest.mark.requirement("S0-084", "S0-085", "S0-131")
@pytest.mark.parametrize("method", ["generate_mjcf_string", "create_mj_model_data"])
def test_all_custom_tags_are_gone_before_anything_is_written(generator, tmp_path, method):
    generator.merge_xml(fragment(SITE + CHILDCLASS + Q_INIT))
    getattr(generator, method)()
    written = etree.parse(str(tmp_path / "out" / "one_leg.xml"))
    assert not list(written.iter("reference", "setattribute", "q_init", "attribute"))
    assert generator.q_init == {"fl_hip": 0.15, "fl_knee": -0.4}
    assert generator._finalize_xml() is None  # may run again: nothing is left to do


@pytest.mark.requirement("S0-086")
@pytest.mark.parametrize("tag", ["reference", "setattribute", "q_init"])
def test_nested_custom_tag_is_refused_by_name(generator, tag):
    generator.merge_xml(fragment(f'<worldbody><{tag} element="body" name="base_link"/></worldbody>'))
    with pytest.raises(ModelError, match=f"<{tag}> stands inside <worldbody>"):
        generator.generate_mjcf_string()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<reference element="body" name="nobody"/>', r'<reference element="body" name="nobody">: .*base_link'),
        ('<setattribute element="camera" name="x"/>', "it has no named <camera> at all"),
        ('<reference name="base_link"/>', "attribute 'element' is missing"),
        ('<q_init><joint name="fl_hip" value="a lot"/></q_init>', "joint 'fl_hip': expected a number, got 'a lot'"),
        ('<q_init><joint name="fl_hip" value="nan"/></q_init>', "expected a number, got 'nan'"),
        ('<q_init><joint value="1"/></q_init>', "attribute 'name' is missing"),
        ('<q_init><joint name="nobody" value="1"/></q_init>', "no hinge or slide joint 'nobody'"),
        ('<setattribute element="body" name="base_link"><attribute name="x"/></setattribute>', "has no value"),
    ],
)
def test_what_matches_nothing_is_refused_and_lenient_skips_it(tmp_path, text, message):
    strict = MjcfGenerator("one_leg", ROBOT.read_bytes(), tmp_path / "strict")
    strict.merge_xml(fragment(text))
    with pytest.raises(ModelError, match=message):
        strict.generate_mjcf_string()
    lenient = MjcfGenerator("one_leg", ROBOT.read_bytes(), tmp_path / "lenient", lenient=True)
    lenient.merge_xml(fragment(text))
    mujoco.MjModel.from_xml_string(lenient.generate_mjcf_string())
    assert lenient.report.of("dropped")


def test_tags_are_applied_in_document_order(generator):
    generator.merge_xml(fragment('<reference element="body" name="base_link"><site name="new" size="0.01"/></reference>'
                                 '<setattribute element="site" name="new"><attribute name="size" value="0.02"/></setattribute>'
                                 '<setattribute element="site" name="new"><attribute name="size" value="0.03"/></setattribute>'))  # fmt: skip
    assert final_tree(generator).find(".//site[@name='new']").get("size") == "0.03"


def test_names_with_quotes_spaces_and_unicode(tmp_path):
    name = "b\"ä'se link"
    urdf = ROBOT.read_text().replace('"base_link"', "'" + name.replace("'", "&apos;") + "'")
    generator = MjcfGenerator("one_leg", urdf, tmp_path / "out")
    tag = etree.Element("mujoco")
    reference = etree.SubElement(tag, "reference", element="body", name=name)
    etree.SubElement(reference, "site", name="ünicode 'n\"", size="0.01")
    generator.merge_xml(etree.tostring(tag, encoding="unicode"))
    model, _ = generator.create_mj_model_data()
    assert model.body(name).id == 1
    assert model.site("ünicode 'n\"").bodyid == 1


@pytest.mark.requirement("S0-003", "S0-004", "S0-110", "S0-130")
def test_config_xml_combines_all_features(generator):
    generator.merge_xml(CONFIG)
    model, data = generator.create_mj_model_data()
    assert model.opt.timestep == 0.001
    assert (model.nu, model.nsensor, model.nexclude, model.ncam) == (2, 2, 1, 1)
    assert model.site("base_link").bodyid == model.body("base_link").id
    assert model.dof_armature[model.joint("fl_hip").dofadr[0]] == 0.02
    assert data.joint("fl_hip").qpos[0] == 0.15
    assert data.actuator("fl_knee").ctrl[0] == -0.4

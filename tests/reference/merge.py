"""The obvious merge: look at every sibling for each element. Named elements match by tag and name, sections by tag."""


def merge(target, source) -> None:
    for element in list(source):
        same = None
        for sibling in target:
            named = element.get("name") is not None and sibling.get("name") == element.get("name")
            if sibling.tag == element.tag and (named or target.tag == "mujoco"):
                same = sibling
                break
        if same is None:
            target.append(element)
        else:
            same.attrib.update(element.attrib)
            merge(same, element)

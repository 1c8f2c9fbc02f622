from itertools import batched

from django.db import migrations


def fill(apps, schema_editor):
    """Write the hits of decisions made before there were any."""
    Decision = apps.get_model("approvals", "Decision")
    RuleHit = apps.get_model("approvals", "RuleHit")
    rows = Decision.objects.order_by("pk").values_list("pk", "version__policy_id", "matched_rules")
    hits = (
        RuleHit(policy_id=policy, decision_id=key, rule_id=rule_id)
        for key, policy, rules in rows.iterator(chunk_size=2_000)
        for rule_id in rules
    )
    for some in batched(hits, 2_000):
        RuleHit.objects.bulk_create(some)


class Migration(migrations.Migration):
    dependencies = [("approvals", "0005_rule_hits")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]

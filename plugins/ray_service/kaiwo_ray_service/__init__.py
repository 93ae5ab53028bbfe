"""KaiwoServices that run as a RayService inside an AppWrapper."""
